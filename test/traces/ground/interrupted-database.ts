import { Database, type RawTx, type Row, type SqlValue, type Work } from '#platform';

/**
 * The same database, where something happens once between two statements of a transaction: behind the first one that is
 * meant. They travel in one packet, and other clients' commits come between them all the same.
 */
export class InterruptedDatabase extends Database {
  readonly dialect = this.inner.dialect;

  constructor(
    private readonly inner: Database,
    private interrupt: (() => Promise<unknown>) | null,
    private readonly behind = / FOR UPDATE/,
  ) {
    super(inner['clock']);
  }

  query<R = Row>(sql: string, values?: readonly SqlValue[]): Promise<R[]> {
    return this.inner.query<R>(sql, values);
  }

  execute(sql: string, values?: readonly SqlValue[]): Promise<number> {
    return this.inner.execute(sql, values);
  }

  ping(timeoutMs: number): Promise<boolean> {
    return this.inner.ping(timeoutMs);
  }

  close(): Promise<void> {
    return this.inner.close();
  }

  /** Something is to happen, once more. */
  arm(interrupt: () => Promise<unknown>): void {
    this.interrupt = interrupt;
  }

  protected commitWith<T>(work: Work<T>): Promise<T> {
    return this.inner['commitWith']((raw) => work(this.sliced(raw)));
  }

  /** Every statement by itself. */
  private sliced(raw: RawTx): RawTx {
    const queryAll: RawTx['queryAll'] = async (queries) => {
      const rows: Row[][] = [];
      for (const { sql, values } of queries) {
        rows.push(await raw.query(sql, values));
        const interrupt = this.behind.test(sql) ? this.interrupt : null;
        if (interrupt) this.interrupt = null;
        await interrupt?.();
      }
      return rows;
    };
    return Object.create(raw, { queryAll: { value: queryAll } }) as RawTx;
  }
}
