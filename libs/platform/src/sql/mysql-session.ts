import mysql2, { type Connection, type Pool, type PoolConnection } from 'mysql2';
import type { DatabaseOptions } from './database-options.js';

/** How many calls may wait for a connection. */
const ACQUIRE_QUEUE_MAX = 1_000;

/**
 * How long the server keeps a silent connection, in seconds. A third of the lease: when a process is stopped inside a
 * transaction, the server ends the connection and frees its rows before the next owner can have the lease.
 */
function waitTimeoutS(leaseTtlMs: number): number {
  return Math.max(1, Math.floor(leaseTtlMs / 3_000));
}

/** What every connection is set to. Backslashes escape (mysql2 relies on it) and double quotes are text. */
export function sessionSettings(options: DatabaseOptions): string {
  const silenceS = waitTimeoutS(options.leaseTtlMs);
  return [
    'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED',
    `SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',` +
      ` autocommit = 1, innodb_lock_wait_timeout = ${options.lockWaitS}, wait_timeout = ${silenceS},` +
      ` net_read_timeout = ${silenceS}, net_write_timeout = ${silenceS}`,
  ].join('; ');
}

/**
 * mysql2 as TypeORM is to load it: with a pool whose every connection, the very first included, is set up before
 * anything else runs on it. One that cannot be set up is dropped.
 */
export function mysqlDriver(options: DatabaseOptions): unknown {
  const settings = sessionSettings(options);
  const setUp = (connection: Connection): void => {
    // The pool forgets the connection, callers see the error at their own statement: nobody else needs to hear of it.
    connection.on('error', () => undefined);
    connection.query(settings, (error) => {
      if (error) connection.destroy();
    });
  };
  return {
    ...mysql2,
    createPool: (config: mysql2.PoolOptions): Pool => {
      const pool = mysql2.createPool(config);
      pool.on('connection', (connection: PoolConnection) => setUp(connection));
      return pool;
    },
  };
}

/** What TypeORM hands on to the pool beside address and size. */
export function poolSettings(options: DatabaseOptions): mysql2.PoolOptions {
  return {
    waitForConnections: true,
    queueLimit: ACQUIRE_QUEUE_MAX,
    // mysql2 looks for idle connections only when fewer of them may stay than there may be.
    maxIdle: options.poolSize - 1,
    // Before the server ends them, so that no call meets a dead one.
    idleTimeout: waitTimeoutS(options.leaseTtlMs) * 500,
    gracefulEnd: true,
    enableKeepAlive: true,
  };
}
