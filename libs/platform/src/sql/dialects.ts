import type { Dialect } from './dialect.js';

/**
 * SYSDATE, unlike NOW, is read when a row is looked at, so after its lock was obtained. (A server started with
 * --sysdate-is-now reads the statement's start.) TIMESTAMPDIFF, because UNIX_TIMESTAMP of MariaDB 10 ends in 2038; the
 * session's time zone is UTC.
 */
export const MYSQL_DIALECT: Dialect = {
  kind: 'mysql',
  forUpdate: 'FOR UPDATE',
  forUpdateSkipLocked: 'FOR UPDATE SKIP LOCKED',
  forShare: 'LOCK IN SHARE MODE',
  nowMs: () => `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(3)) DIV 1000`,
  forceIndex: (name) => `FORCE INDEX (${name})`,
};

/** The function that gives SQLite the injected clock. */
export const SQLITE_NOW_FUNCTION = 'clock_now_ms';

/** SQLite chooses its indexes from few enough: naming one would only make a missing statistic an error. */
export const SQLITE_DIALECT: Dialect = {
  kind: 'sqlite',
  forUpdate: '',
  forUpdateSkipLocked: '',
  forShare: '',
  nowMs: () => `${SQLITE_NOW_FUNCTION}()`,
  forceIndex: () => '',
};
