import type { DataSource } from 'typeorm';
import { UnavailableError } from '../../unavailable.error.js';
import { wellFormed } from '../../well-formed.js';
import { Database } from '../database.js';
import type { DatabaseDeps, DatabaseOptions } from '../database-options.js';
import { SQLITE_DIALECT } from '../dialects.js';
import { FifoLane } from '../fifo-lane.js';
import { checkMatches } from '../grouping.js';
import { sqliteCode, type SqliteHandle, type SqliteStatement } from '../sqlite-handle.js';
import { AttemptFailedError, repeatAttempts } from '../transaction-attempts.js';
import type { RawTx, Work } from '../transaction-group.js';
import type { Query, Row, SqlValue } from '../tx.js';

/** Prepared statements kept; beyond that all are dropped and prepared again when met. */
const STATEMENTS_MAX = 500;

/** Another attempt may pass: a key taken meanwhile, a disk that is full or failing for the moment. */
const REPEATABLE = /^SQLITE_(CONSTRAINT_PRIMARYKEY|CONSTRAINT_UNIQUE|BUSY|LOCKED|FULL|IOERR|CANTOPEN|NOMEM)/;

/**
 * SQLite on the one connection that TypeORM opened. One transaction at a time, in the order of asking; plain statements
 * wait for it too, because on the same connection they would see its uncommitted rows.
 */
export class SqliteDatabase extends Database {
  readonly dialect = SQLITE_DIALECT;
  private readonly handle: SqliteHandle;
  private readonly statements = new Map<string, SqliteStatement>();
  private readonly lane: FifoLane;

  constructor(
    private readonly dataSource: DataSource,
    private readonly options: DatabaseOptions,
    private readonly deps: DatabaseDeps,
  ) {
    super(deps.clock);
    this.handle = (dataSource.driver as unknown as { databaseConnection: SqliteHandle }).databaseConnection;
    this.lane = new FifoLane(deps.clock);
  }

  async query<R = Row>(sql: string, values: readonly SqlValue[] = []): Promise<R[]> {
    this.refuseNested();
    return (await this.inLane(() => this.run(sql, values))) as R[];
  }

  async execute(sql: string, values: readonly SqlValue[] = []): Promise<number> {
    this.refuseNested();
    return (await this.inLane(() => this.run(sql, values))) as number;
  }

  async ping(): Promise<boolean> {
    return this.dataSource.isInitialized;
  }

  async close(): Promise<void> {
    await this.dataSource.destroy();
  }

  private async inLane<T>(run: () => T | Promise<T>): Promise<T> {
    if (!(await this.lane.enter(this.options.connectionWaitMs))) {
      throw new UnavailableError('database', `the connection was not free for ${this.options.connectionWaitMs} ms`);
    }
    try {
      return await run();
    } finally {
      this.lane.leave();
    }
  }

  protected commitWith<T>(work: Work<T>): Promise<T> {
    return repeatAttempts(this.deps, (uncertain) => this.inLane(() => this.attempt(work, uncertain)));
  }

  private async attempt<T>(work: Work<T>, uncertain: boolean): Promise<T> {
    const tx = new SqliteTx(uncertain, (sql, values) => this.run(sql, values));
    let committing = false;
    try {
      this.run('BEGIN IMMEDIATE', []);
      const { result, statements } = await this.scope.run(() => work(tx));
      tx.end();
      checkMatches(
        statements,
        statements.map(({ sql, values }) => this.run(sql, values) as number),
      );
      committing = true;
      await this.deps.steps.reach('database.committing');
      this.run('COMMIT', []);
      await this.deps.steps.reach('database.committed');
      return result;
    } catch (thrown) {
      tx.ended = true;
      this.rollBack();
      // Whatever the work made of it: a statement that failed decides.
      const error = tx.failure ? tx.failure.error : thrown;
      if (committing || REPEATABLE.test(sqliteCode(error) ?? '')) throw new AttemptFailedError(committing, error);
      throw error;
    }
  }

  private rollBack(): void {
    try {
      this.run('ROLLBACK', []);
    } catch {
      // Nothing was open: the COMMIT stands, or the error has ended the transaction by itself.
    }
  }

  /** The rows of a statement that has some, else how many rows it matched. */
  private run(sql: string, values: readonly SqlValue[]): unknown {
    let statement = this.statements.get(sql);
    if (!statement) {
      if (this.statements.size >= STATEMENTS_MAX) this.statements.clear();
      statement = this.handle.prepare(sql);
      this.statements.set(sql, statement);
    }
    const bound = values.map(bindable);
    return statement.reader ? statement.all(...bound) : statement.run(...bound).changes;
  }
}

/** SQLite knows no booleans, and would store a lone surrogate as bytes that are no UTF-8; mysql2 replaces it by itself. */
function bindable(value: SqlValue): string | number | null {
  if (typeof value === 'boolean') return Number(value);
  return typeof value === 'string' ? wellFormed(value) : value;
}

/** One attempt. After a failed statement every further one fails in the same way, as on MySQL. */
class SqliteTx implements RawTx {
  readonly dialect = SQLITE_DIALECT;
  ended = false;
  failure: { error: unknown } | null = null;

  constructor(
    readonly uncertain: boolean,
    private readonly send: (sql: string, values: readonly SqlValue[]) => unknown,
  ) {}

  async query<R = Row>(sql: string, values: readonly SqlValue[] = []): Promise<R[]> {
    return this.run(sql, values) as R[];
  }

  async queryAll(queries: readonly Query[]): Promise<Row[][]> {
    return queries.map(({ sql, values }) => this.run(sql, values) as Row[]);
  }

  async execute(sql: string, values: readonly SqlValue[] = []): Promise<number> {
    return this.run(sql, values) as number;
  }

  /** @throws the first failure of a statement, should the work have swallowed it */
  end(): void {
    this.ended = true;
    if (this.failure) throw this.failure.error;
  }

  private run(sql: string, values: readonly SqlValue[]): unknown {
    if (this.ended) throw new Error('the transaction has ended');
    if (this.failure) throw this.failure.error;
    try {
      return this.send(sql, values);
    } catch (error) {
      this.failure = { error };
      throw error;
    }
  }
}
