import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { SqlEventLedger } from '#event-ledger';
import { Database, type RawTx, type Row, type SqlRunner, type SqlValue, type Work } from '#platform';
import { partitionOf } from '#protocol';
import { TestDatabase } from '#test-kit';
import { SqlTurns } from '#turn-lifecycle';

/** Keeps the statements that run, so that they can be explained as they are. */
class ListeningDatabase extends Database {
  readonly dialect;
  statements: { sql: string; values: readonly SqlValue[] }[] = [];

  constructor(private readonly inner: Database) {
    super(inner['clock']);
    this.dialect = inner.dialect;
  }

  query<R = Row>(sql: string, values: readonly SqlValue[] = []): Promise<R[]> {
    this.statements.push({ sql, values });
    return this.inner.query<R>(sql, values);
  }

  execute(sql: string, values: readonly SqlValue[] = []): Promise<number> {
    return this.inner.execute(sql, values);
  }

  protected commitWith<T>(work: Work<T>): Promise<T> {
    return this.inner['commitWith'](async (raw) => {
      const done = await work(this.listenTo(raw));
      this.statements.push(...done.statements);
      return done;
    });
  }

  ping(timeoutMs: number): Promise<boolean> {
    return this.inner.ping(timeoutMs);
  }

  close(): Promise<void> {
    return this.inner.close();
  }

  private listenTo(tx: RawTx): RawTx {
    const keep = (sql: string, values: readonly SqlValue[]): void => void this.statements.push({ sql, values });
    return {
      dialect: tx.dialect,
      uncertain: tx.uncertain,
      query: <R = Row>(sql: string, values: readonly SqlValue[] = []) => (keep(sql, values), tx.query<R>(sql, values)),
      queryAll: (queries) => {
        for (const { sql, values } of queries) keep(sql, values);
        return tx.queryAll(queries);
      },
      execute: (sql: string, values: readonly SqlValue[] = []) => (keep(sql, values), tx.execute(sql, values)),
    };
  }
}

describe('the plans of MySQL and MariaDB', () => {
  let test: TestDatabase;
  let database: ListeningDatabase;
  let turns: SqlTurns;
  let ledger: SqlEventLedger;
  const session = { account: 'a2', sessionId: 's7' };

  beforeAll(async () => {
    test = await TestDatabase.create('mysql');
    const { database: inner } = await test.openMigrated();
    database = new ListeningDatabase(inner);
    turns = new SqlTurns(database);
    ledger = new SqlEventLedger(database);
    await fill(inner);
  });

  afterAll(() => test.drop());

  /** 6000 turns and events of 100 sessions; one turn of 20 is live. */
  async function fill(runner: SqlRunner): Promise<void> {
    const numbered = Array.from({ length: 6000 }, (_, i) => i);
    const insert = async (head: string, rows: SqlValue[][]): Promise<void> => {
      const row = `(${rows[0]!.map(() => '?').join(', ')})`;
      for (let from = 0; from < rows.length; from += 1000) {
        const some = rows.slice(from, from + 1000);
        await runner.execute(`${head} VALUES ${some.map(() => row).join(', ')}`, some.flat());
      }
    };
    const of = (i: number): [string, string] => [`a${i % 5}`, `s${i % 100}`];
    await insert(
      'INSERT INTO turn (account, turn_id, session_id, part, live, path, state, generation, queue_seq, queued_at, mode, kind, attempts)',
      numbered.map((i) => {
        const [account, sessionId] = of(i);
        const part = partitionOf({ account, sessionId });
        const live = i % 20 === 0;
        return [
          account,
          `t${i}`,
          sessionId,
          part,
          live ? 1 : null,
          `t${i}`,
          live ? 'queued' : 'completed',
          1,
          i,
          i,
          'enqueue',
          'user',
          0,
        ];
      }),
    );
    await insert(
      'INSERT INTO event (account, session_id, seq, event_id, type, turn_id, generation, at, data)',
      numbered.map((i) => [...of(i), i, `e${i}`, 'turn.completed', `t${i}`, 1, i, '{}']),
    );
    await insert(
      'INSERT INTO session (account, session_id, next_seq, owner_epoch, digest, created_at, last_activity_at)',
      numbered.slice(0, 100).map((i) => [...of(i), 6001, 1, '', i, i]),
    );
    await runner.query('ANALYZE TABLE turn, event, session');
  }

  /** The plan of what `run` asks: for each statement its index, how it is used and how many rows are looked at. */
  async function plan(
    run: () => Promise<unknown>,
  ): Promise<{ key: unknown; type: unknown; rows: number; extra: string }> {
    database.statements = [];
    await run();
    const locking = database.statements.filter(({ sql }) => sql.includes('FOR UPDATE'));
    const writing = database.statements.filter(({ sql }) => sql.startsWith('UPDATE'));
    const { sql, values } = (writing.at(-1) ?? locking.at(-1) ?? database.statements.at(-1))!;
    const explained = await database.query(`EXPLAIN FORMAT=TRADITIONAL ${sql}`, values);
    expect(explained).toHaveLength(1);
    const row = explained[0]!;
    return { key: row['key'], type: row['type'], rows: Number(row['rows']), extra: String(row['Extra']) };
  }

  it.each([
    ['live', 'turn_live', () => turns.live(database, session)],
    ['countQueued', 'turn_live', () => turns.countQueued(database, session)],
    ['liveIn', 'turn_live', () => turns.liveIn([1, 2, 3, 200], 9e9, null, 100)],
    [
      'liveIn behind a cursor',
      'turn_live',
      async () => {
        const all = Array.from({ length: 256 }, (_, i) => i);
        const [first] = await turns.liveIn(all, 9e9, null, 1);
        return turns.liveIn([partitionOf(first!.session), 254, 255], 9e9, first!, 100);
      },
    ],
    ['list', 'turn_order', () => turns.list(session, 0, 100, null)],
    ['list by state', 'turn_order', () => turns.list(session, 0, 100, 'completed')],
    ['events', 'PRIMARY', () => ledger.events(session, 3000, 100)],
    ['events of a turn', 'PRIMARY', () => ledger.events(session, 3000, 100, { turnId: 't7', generation: 1 })],
    ['eventsAt', 'PRIMARY', () => ledger.eventsAt(database, session, [7, 107])],
    ['listSessions', 'session_activity', () => ledger.listSessions('a1', { lastActivityAtMs: 50, sessionId: 's' }, 10)],
  ])('%s reads by %s, in its order and no more than it needs', async (_name, index, run) => {
    const { key, type, rows, extra } = await plan(run);
    expect(key).toBe(index);
    expect(type).toMatch(/^(range|ref)$/);
    expect(extra).not.toMatch(/filesort|temporary/);
    // An estimate; 300 of the 6000 turns are live.
    expect(rows).toBeLessThan(400);
  });

  it.each([
    ['find', () => turns.find(database, 'a1', 't1'), 'PRIMARY'],
    [
      'states',
      () =>
        turns.states([
          { account: 'a1', turnId: 't1', generation: 1 },
          { account: 'a2', turnId: 't2', generation: 1 },
        ]),
      'PRIMARY',
    ],
    ['lastSeqs', () => ledger.lastSeqs([session, { account: 'a3', sessionId: 's3' }]), 'PRIMARY'],
    ['loads', () => turns.loads([session, { account: 'a3', sessionId: 's3' }]), 'turn_live'],
    ['lockHead', () => database.transaction((tx) => ledger.lockHead(tx, session)), 'PRIMARY'],
    [
      'move',
      () =>
        database.transaction(async (tx) => {
          const rows = await Promise.all(['t0', 't20', 't40'].map((turnId) => turns.lock(tx, 'a0', turnId)));
          for (const row of rows) turns.move(tx, row!, 'start', { attempts: 1, nowMs: 1 });
        }),
      'PRIMARY',
    ],
  ])('%s looks at its own rows only', async (_name, run, index) => {
    const { key, rows } = await plan(run);
    expect(key).toBe(index);
    expect(rows).toBeLessThan(20);
  });
});
