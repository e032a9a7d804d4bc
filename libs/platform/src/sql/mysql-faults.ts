/** What an error of MySQL, MariaDB or the connection means for the transaction. */
export type Fault =
  /** The transaction was, or is to be, rolled back; another attempt may pass. */
  | 'repeat'
  /** The connection is of no use any more. */
  | 'lost'
  /** The statement is at fault. */
  | 'other';

/** Deadlock, lock wait, duplicate key, and a row that changed since the snapshot. */
const REPEATABLE = new Set([1213, 1205, 1062, 1020]);

/**
 * The server is full (1040, 1203), goes away or ended the connection (1053, 1927, 4031, 1152–1161), or is a replica by
 * now (1290, 1792, 1836).
 */
const LOST = new Set([1040, 1203, 1053, 1927, 4031, 1152, 1158, 1159, 1160, 1161, 1290, 1792, 1836]);

const LOST_CODES = new Set([
  'PROTOCOL_CONNECTION_LOST',
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);

interface DriverError {
  errno?: number;
  code?: string;
  fatal?: boolean;
}

export function faultOf(error: unknown): Fault {
  if (typeof error !== 'object' || error === null) return 'other';
  const { errno, code, fatal } = error as DriverError;
  if (errno !== undefined && REPEATABLE.has(errno)) return 'repeat';
  if (fatal === true || (errno !== undefined && LOST.has(errno))) return 'lost';
  return code !== undefined && LOST_CODES.has(code) ? 'lost' : 'other';
}
