import type { Clock } from '../clock.js';
import type { Dialect } from './dialect.js';
import { GroupCommit, type GroupOptions } from './group-commit.js';
import { type Outcome, SpoiledGroupError, TransactionGroup, type Work } from './transaction-group.js';
import { TransactionScope } from './transaction-scope.js';
import type { Row, SqlRunner, SqlValue, Tx } from './tx.js';

/**
 * The SQL database, MySQL/MariaDB or SQLite. READ COMMITTED. Connections are bounded; so is the wait for one
 * (`UnavailableError`). Never call `transaction`, `query` or `execute` of the database from inside a transaction's work:
 * that would take a second connection while holding the first.
 */
export abstract class Database implements SqlRunner {
  abstract readonly dialect: Dialect;
  protected readonly scope = new TransactionScope();
  private readonly groups: GroupCommit;

  constructor(protected readonly clock: Clock) {
    this.groups = new GroupCommit((works, skipLocked) => this.transact(works, skipLocked), clock);
  }

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
  async transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    this.refuseNested();
    const [outcome] = await this.transact([work], false);
    if ('error' in outcome!) throw outcome.error;
    return outcome!.value;
  }

  /**
   * The same, but sharing one transaction and one commit with whatever else arrives while another one is under way. Rows
   * are locked by `ask` only. A work that would have to wait for a row is run by itself.
   * @throws UnavailableError as `transaction`, and when others hold it up for too long
   */
  together<T>(work: (tx: Tx) => Promise<T>, options: GroupOptions): Promise<T> {
    this.refuseNested();
    return this.groups.join(work, options);
  }

  /**
   * Runs `work` in one transaction, sends the statements that it hands back, and commits; repeats all of it as
   * `transaction` says.
   */
  protected abstract commitWith<T>(work: Work<T>): Promise<T>;

  /** Whether the database answers, within `timeoutMs`. */
  abstract ping(timeoutMs: number): Promise<boolean>;

  abstract close(): Promise<void>;

  private transact<T>(works: readonly ((tx: Tx) => Promise<T>)[], skipLocked: boolean): Promise<Outcome<T>[]> {
    return this.commitWith(async (raw) => {
      const group = new TransactionGroup(raw, skipLocked);
      const outcomes = await group.run(works);
      return { result: outcomes, statements: group.statements() };
    }).catch((error: unknown) => {
      // A single work has nobody to spoil: what it threw rolls it back.
      if (error instanceof SpoiledGroupError && works.length === 1) return [{ error: error.cause }];
      throw error;
    });
  }

  /** @throws Error when called from inside a transaction's work; whatever waits for the database in secret asks it */
  refuseNested(): void {
    this.scope.refuseNested();
  }
}
