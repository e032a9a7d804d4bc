import type { Socket } from 'node:net';
import type { Pool, PoolConnection, ResultSetHeader, RowDataPacket } from 'mysql2';
import type { DataSource } from 'typeorm';
import { UnavailableError } from '../../unavailable.error.js';
import { Database, type Row, type SqlValue, type Tx } from '../database.js';
import type { DatabaseDeps, DatabaseOptions } from '../database-options.js';
import { MYSQL_DIALECT } from '../dialects.js';
import { faultOf } from '../mysql-faults.js';
import { AttemptFailedError, repeatAttempts } from '../transaction-attempts.js';

/** Statements with more text than this are prepared: their values then travel as they are, not escaped and so longer. */
const PREPARE_ABOVE_CHARS = 1_048_576;

/**
 * MySQL 8 and later, MariaDB from 10.6, straight on the pool that TypeORM opened. It owns no connection between calls.
 * A transaction begins with its first statement, in the same round trip, and costs one more for its COMMIT; one that ran
 * no statement costs none.
 */
export class MysqlDatabase extends Database {
  readonly dialect = MYSQL_DIALECT;
  private readonly pool: Pool;

  constructor(
    private readonly dataSource: DataSource,
    private readonly options: DatabaseOptions,
    private readonly deps: DatabaseDeps,
  ) {
    super();
    this.pool = (dataSource.driver as unknown as { pool: Pool }).pool;
  }

  async query<R = Row>(sql: string, values: readonly SqlValue[] = []): Promise<R[]> {
    this.refuseNested();
    return (await repeatAttempts(this.deps, () => this.runAlone(sql, values, true))) as R[];
  }

  async execute(sql: string, values: readonly SqlValue[] = []): Promise<number> {
    this.refuseNested();
    const header = await repeatAttempts(this.deps, () => this.runAlone(sql, values, false));
    return (header as ResultSetHeader).affectedRows;
  }

  async transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    this.refuseNested();
    return repeatAttempts(this.deps, (uncertain) => this.attempt(work, uncertain));
  }

  async ping(timeoutMs: number): Promise<boolean> {
    try {
      const connection = await this.acquire(timeoutMs);
      await this.run(connection, 'SELECT 1', [], timeoutMs).finally(() => connection.release());
      return true;
    } catch {
      return false;
    }
  }

  async close(): Promise<void> {
    await this.dataSource.destroy();
  }

  /** One statement outside a transaction. Only a read is repeated when its connection was lost. */
  private async runAlone(sql: string, values: readonly SqlValue[], repeatable: boolean): Promise<unknown> {
    const connection = await this.acquire();
    try {
      return await this.run(connection, sql, values);
    } catch (error) {
      const fault = faultOf(error);
      if (fault === 'lost') cutOff(connection);
      if (fault === 'repeat' || (fault === 'lost' && repeatable)) throw new AttemptFailedError(false, error);
      if (fault === 'lost') throw new UnavailableError('database', 'the connection was lost', { cause: error });
      throw error;
    } finally {
      connection.release();
    }
  }

  private async attempt<T>(work: (tx: Tx) => Promise<T>, uncertain: boolean): Promise<T> {
    const connection = await this.acquire();
    const tx = new MysqlTx(uncertain, (sql, values) => this.run(connection, sql, values));
    try {
      const result = await this.scope.run(() => work(tx));
      tx.end();
      if (tx.begun) await this.commit(connection);
      return result;
    } catch (error) {
      tx.ended = true;
      if (error instanceof AttemptFailedError) throw error;
      const fault = faultOf(error);
      if (fault === 'lost') cutOff(connection);
      else if (tx.begun) await this.rollBack(connection);
      if (fault === 'other') throw error;
      throw new AttemptFailedError(false, error);
    } finally {
      // Does nothing when the connection was destroyed.
      connection.release();
    }
  }

  /** Any failure but a clear refusal leaves the outcome open: whoever repeats the work has to look for its trace. */
  private async commit(connection: PoolConnection): Promise<void> {
    try {
      await this.deps.steps.reach('database.committing');
      await this.run(connection, 'COMMIT', []);
      await this.deps.steps.reach('database.committed');
    } catch (error) {
      if (faultOf(error) === 'repeat') throw error;
      cutOff(connection);
      throw new AttemptFailedError(true, error);
    }
  }

  private async rollBack(connection: PoolConnection): Promise<void> {
    try {
      await this.run(connection, 'ROLLBACK', []);
    } catch {
      // The server rolls back when the connection goes.
      cutOff(connection);
    }
  }

  private run(
    connection: PoolConnection,
    sql: string,
    values: readonly SqlValue[],
    timeoutMs = this.options.statementTimeoutMs,
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const timer = this.deps.clock.after(timeoutMs, () => {
        cutOff(connection);
        reject(Object.assign(new Error(`a statement took longer than ${timeoutMs} ms`), { fatal: true }));
      });
      const prepared = textLength(values) > PREPARE_ABOVE_CHARS;
      const done = (error: unknown, result?: unknown): void => {
        timer.cancel();
        if (prepared) connection.unprepare(sql);
        if (error) reject(error as Error);
        else resolve(result);
      };
      try {
        if (prepared) connection.execute(sql, values as SqlValue[], done);
        else connection.query(sql, values as SqlValue[], done);
      } catch (error) {
        // Values that mysql2 cannot send; the connection is as it was.
        done(error);
      }
    });
  }

  /** @throws UnavailableError when none is free in time; AttemptFailedError when none can be opened */
  private acquire(waitMs = this.options.connectionWaitMs): Promise<PoolConnection> {
    return new Promise((resolve, reject) => {
      let gaveUp = false;
      const timer = this.deps.clock.after(waitMs, () => {
        gaveUp = true;
        reject(new UnavailableError('database', `no connection was free for ${waitMs} ms`));
      });
      this.pool.getConnection((error, connection) => {
        timer.cancel();
        if (gaveUp) connection?.release();
        else if (!error) resolve(connection);
        else if (faultOf(error) === 'lost') reject(new AttemptFailedError(false, error));
        else reject(new UnavailableError('database', `no connection: ${error.message}`, { cause: error }));
      });
    });
  }
}

/** mysql2 ends its side and waits for the server's, which a server that hangs never ends. */
function cutOff(connection: PoolConnection): void {
  connection.destroy();
  (connection as unknown as { stream: Socket }).stream.destroy();
}

function textLength(values: readonly SqlValue[]): number {
  let length = 0;
  for (const value of values) if (typeof value === 'string') length += value.length;
  return length;
}

/**
 * One attempt. After a statement has failed every further one fails in the same way: the server may have rolled back
 * already, and what came next would commit by itself.
 */
class MysqlTx implements Tx {
  readonly dialect = MYSQL_DIALECT;
  begun = false;
  ended = false;
  private failure: { error: unknown } | null = null;

  constructor(
    readonly uncertain: boolean,
    private readonly send: (sql: string, values: readonly SqlValue[]) => Promise<unknown>,
  ) {}

  async query<R = Row>(sql: string, values: readonly SqlValue[] = []): Promise<R[]> {
    return (await this.run(sql, values)) as RowDataPacket[] as R[];
  }

  async execute(sql: string, values: readonly SqlValue[] = []): Promise<number> {
    return ((await this.run(sql, values)) as ResultSetHeader).affectedRows;
  }

  /** @throws the first failure of a statement, should the work have swallowed it */
  end(): void {
    this.ended = true;
    if (this.failure) throw this.failure.error;
  }

  private async run(sql: string, values: readonly SqlValue[]): Promise<unknown> {
    if (this.ended) throw new Error('the transaction has ended');
    if (this.failure) throw this.failure.error;
    try {
      if (this.begun) return await this.send(sql, values);
      this.begun = true;
      if (textLength(values) <= PREPARE_ABOVE_CHARS) {
        const results = (await this.send(`START TRANSACTION; ${sql}`, values)) as unknown[];
        return results[1];
      }
      await this.send('START TRANSACTION', []);
      return await this.send(sql, values);
    } catch (error) {
      this.failure ??= { error };
      throw error;
    }
  }
}
