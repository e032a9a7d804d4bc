import type { Socket } from 'node:net';
import type { Pool, PoolConnection, ResultSetHeader, RowDataPacket } from 'mysql2';
import type { DataSource } from 'typeorm';
import { UnavailableError } from '../../unavailable.error.js';
import { Database } from '../database.js';
import type { DatabaseDeps, DatabaseOptions } from '../database-options.js';
import { MYSQL_DIALECT } from '../dialects.js';
import { checkMatches, MismatchError } from '../grouping.js';
import { faultOf } from '../mysql-faults.js';
import { AttemptFailedError, repeatAttempts } from '../transaction-attempts.js';
import type { RawTx, Work } from '../transaction-group.js';
import type { Query, Row, SqlValue, Statement } from '../tx.js';

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
    super(deps.clock);
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

  protected commitWith<T>(work: Work<T>): Promise<T> {
    return repeatAttempts(this.deps, (uncertain) => this.attempt(work, uncertain));
  }

  private async attempt<T>(work: Work<T>, uncertain: boolean): Promise<T> {
    const connection = await this.acquire();
    const tx = new MysqlTx(uncertain, (sql, values) => this.run(connection, sql, values));
    try {
      const { result, statements } = await this.scope.run(() => work(tx));
      tx.end();
      if (tx.begun || statements.length > 0) await this.commit(connection, tx, statements);
      return result;
    } catch (thrown) {
      tx.ended = true;
      if (thrown instanceof AttemptFailedError) throw thrown;
      // Whatever the work made of it: a statement that failed decides.
      const error = tx.failure ? tx.failure.error : thrown;
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

  /**
   * Sends what is left to be written and the COMMIT, in one round trip unless it is much. The server stops at the first
   * statement that it refuses, so a clear refusal means that nothing was committed; any other failure leaves the outcome
   * open, and whoever repeats the work has to look for its trace.
   */
  private async commit(connection: PoolConnection, tx: MysqlTx, statements: readonly Statement[]): Promise<void> {
    const packets = inPackets(statements);
    const last = packets.pop() ?? [];
    for (const packet of packets) checkMatches(packet, await tx.send(packet));
    try {
      await this.deps.steps.reach('database.committing');
      const results = await tx.send(last, 'COMMIT');
      await this.deps.steps.reach('database.committed');
      checkMatches(last, results);
    } catch (error) {
      if (error instanceof MismatchError || isRefusal(error)) throw error;
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
class MysqlTx implements RawTx {
  readonly dialect = MYSQL_DIALECT;
  begun = false;
  ended = false;
  failure: { error: unknown } | null = null;

  constructor(
    readonly uncertain: boolean,
    private readonly sendText: (sql: string, values: readonly SqlValue[]) => Promise<unknown>,
  ) {}

  async query<R = Row>(sql: string, values: readonly SqlValue[] = []): Promise<R[]> {
    return (await this.run(sql, values)) as RowDataPacket[] as R[];
  }

  async execute(sql: string, values: readonly SqlValue[] = []): Promise<number> {
    return ((await this.run(sql, values)) as ResultSetHeader).affectedRows;
  }

  async queryAll(queries: readonly Query[]): Promise<Row[][]> {
    if (queries.length === 1) return [await this.query(queries[0]!.sql, queries[0]!.values)];
    const results = await this.run(
      queries.map(({ sql }) => sql).join('; '),
      queries.flatMap(({ values }) => values),
    );
    return results as Row[][];
  }

  /** Sends statements in one round trip, and what else is given behind them; how many rows each has matched. */
  async send(statements: readonly Statement[], behind?: string): Promise<number[]> {
    const [only] = statements;
    if (statements.length === 1 && textLength(only!.values) > PREPARE_ABOVE_CHARS) {
      const header = await this.sendFirst(only!.sql, only!.values);
      if (behind) await this.sendText(behind, []);
      return [(header as ResultSetHeader).affectedRows];
    }
    const texts = [...statements.map(({ sql }) => sql), ...(behind ? [behind] : [])];
    const before = this.begun ? 0 : 1;
    if (!this.begun) texts.unshift('START TRANSACTION');
    this.begun = true;
    const results = await this.sendText(
      texts.join('; '),
      statements.flatMap(({ values }) => values),
    );
    // One statement by itself is answered by its result, several by a list of theirs.
    const headers = (texts.length === 1 ? [results] : results) as ResultSetHeader[];
    return headers.slice(before, before + statements.length).map(({ affectedRows }) => affectedRows);
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
      return await this.sendFirst(sql, values);
    } catch (error) {
      this.failure ??= { error };
      throw error;
    }
  }

  /** Begins the transaction if this is its first statement. */
  private async sendFirst(sql: string, values: readonly SqlValue[]): Promise<unknown> {
    if (this.begun) return this.sendText(sql, values);
    this.begun = true;
    if (textLength(values) <= PREPARE_ABOVE_CHARS) {
      const [, ...results] = (await this.sendText(`START TRANSACTION; ${sql}`, values)) as unknown[];
      return results.length === 1 ? results[0] : results;
    }
    await this.sendText('START TRANSACTION', []);
    return this.sendText(sql, values);
  }
}

/** Statements that may travel together. A large one travels by itself, prepared. */
function inPackets(statements: readonly Statement[]): Statement[][] {
  const packets: Statement[][] = [];
  let length = Infinity;
  for (const statement of statements) {
    const own = statement.sql.length + textLength(statement.values);
    if (length + own > PREPARE_ABOVE_CHARS) {
      packets.push([]);
      length = 0;
    }
    packets.at(-1)!.push(statement);
    length += own;
  }
  return packets;
}

/** The server has answered, and said no. (Errors of the operating system have negative numbers.) */
function isRefusal(error: unknown): boolean {
  const { errno } = error as { errno?: unknown };
  return typeof errno === 'number' && errno > 0 && faultOf(error) !== 'lost';
}
