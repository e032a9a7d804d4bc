/**
 * Every difference between the SQL of MySQL/MariaDB and of SQLite that the ledger needs, in one place. What MySQL 8.0–9
 * and MariaDB from 10.6 differ in is not used at all: no RETURNING, no `FOR SHARE`, no `AS new`, no functional index, no
 * JSON operator, no 0900 collation. SQLite runs one transaction at a time, so its locking clauses are empty.
 */
export interface Dialect {
  readonly kind: 'mysql' | 'sqlite';
  /** Locks the rows read until the transaction ends. */
  readonly forUpdate: string;
  /** Lets others read the rows with a shared lock too, but change them only when the transaction has ended. */
  readonly forShare: string;
  /** As `forUpdate`, leaving out rows that another transaction holds. */
  readonly forUpdateSkipLocked: string;
  /** The ledger's clock as an expression, ms since 1970 UTC, read when the row's lock has been obtained. */
  nowMs(): string;
  /** The index to read by, after a table name. */
  forceIndex(name: string): string;
}
