import type { Dialect } from './dialect.js';
import { TransactionScope } from './transaction-scope.js';

export type SqlValue = string | number | boolean | null;
export type Row = Record<string, string | number | null>;

/** What runs statements. `?` marks a parameter; a list of them is written out by `placeholders()`. */
export interface SqlRunner {
  readonly dialect: Dialect;
  /** The rows of a SELECT. BIGINT comes as a safe integer. */
  query<R = Row>(sql: string, values?: readonly SqlValue[]): Promise<R[]>;
  /** Runs an INSERT, UPDATE or DELETE; how many rows it matched. */
  execute(sql: string, values?: readonly SqlValue[]): Promise<number>;
}

/** One attempt at a transaction. */
export interface Tx extends SqlRunner {
  /**
   * True when the COMMIT of an earlier attempt got no answer, so its work may stand already. The work then looks, under
   * its locks, for its own trace before it does anything.
   */
  readonly uncertain: boolean;
}

/**
 * The SQL database, MySQL/MariaDB or SQLite. READ COMMITTED. Connections are bounded; so is the wait for one
 * (`UnavailableError`). Never call `transaction`, `query` or `execute` of the database from inside a transaction's work:
 * that would take a second connection while holding the first.
 */
export abstract class Database implements SqlRunner {
  abstract readonly dialect: Dialect;
  protected readonly scope = new TransactionScope();

  /** A plain read, repeated after a lost connection. @throws UnavailableError */
  abstract query<R = Row>(sql: string, values?: readonly SqlValue[]): Promise<R[]>;

  /** One statement that commits by itself. @throws UnavailableError: it may have happened when the connection was lost */
  abstract execute(sql: string, values?: readonly SqlValue[]): Promise<number>;

  /**
   * Runs `work` in one transaction. It is run again from its beginning, TRANSACTION_ATTEMPTS times at most, after a
   * deadlock, a lock wait, a duplicate key or a lost connection; so it must not change anything outside the database.
   * Nothing slow may happen inside. An error thrown by `work` itself rolls back and is passed on.
   * @throws UnavailableError when the database cannot be reached or attempts are used up
   */
  abstract transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;

  /** Whether the database answers, within `timeoutMs`. */
  abstract ping(timeoutMs: number): Promise<boolean>;

  abstract close(): Promise<void>;

  /** @throws Error when called from inside a transaction's work; whatever waits for the database in secret asks it */
  refuseNested(): void {
    this.scope.refuseNested();
  }
}

/** `?, ?, ?` for `count` parameters. */
export function placeholders(count: number): string {
  return Array.from({ length: count }, () => '?').join(', ');
}
