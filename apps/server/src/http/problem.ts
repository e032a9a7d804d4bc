import { STATUS_CODES } from 'node:http';
import { ERROR_STATUS, type ErrorCode, type ErrorFacts } from '#protocol';

/** RFC 9457, with a stable `code` and the facts of the refusal. */
export interface Problem extends Omit<ErrorFacts, 'retryAfterS'> {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
}

/** How long to wait before the call is sent again, where the refusal does not say so itself. */
const RETRY_AFTER_S = 1;

export function problemOf(
  code: ErrorCode,
  detail: string,
  facts: ErrorFacts = {},
): { problem: Problem; retryAfterS: number | null } {
  const { retryAfterS, ...told } = facts;
  const status = ERROR_STATUS[code];
  const passes = status === 429 || status === 503;
  return {
    problem: { type: `urn:butler:problem:${code}`, title: STATUS_CODES[status] ?? code, status, detail, code, ...told },
    retryAfterS: passes ? (retryAfterS ?? RETRY_AFTER_S) : null,
  };
}
