import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Database, SystemClock, UnavailableError } from '#platform';
import { TestDatabase } from '#test-kit';

const clock = new SystemClock();
const LEASE_TTL_MS = 3_000;

describe('the connections to MySQL', () => {
  let test: TestDatabase;
  let database: Database;
  /** Stands for another pod. */
  let other: Database;

  beforeAll(async () => {
    test = await TestDatabase.create('mysql');
    const bounds = { poolSize: 4, leaseTtlMs: LEASE_TTL_MS, lockWaitS: 1, statementTimeoutMs: 1_500 };
    ({ database } = await test.open(bounds));
    ({ database: other } = await test.open(bounds));
    await database.execute('CREATE TABLE item (id varchar(64) NOT NULL PRIMARY KEY, n bigint NOT NULL)');
    await database.execute(`INSERT INTO item VALUES ('a', 0), ('b', 0), ('c', 0)`);
  });

  afterAll(() => test.drop());

  const add = 'UPDATE item SET n = n + 1 WHERE id = ?';
  const n = async (id: string): Promise<unknown> =>
    (await database.query<{ n: number }>('SELECT n FROM item WHERE id = ?', [id]))[0]?.n;

  it('are set up before anything runs on them, each of them', async () => {
    const settings = `SELECT CONNECTION_ID() AS id, @@time_zone AS zone, @@sql_mode AS mode, @@innodb_lock_wait_timeout AS wait,
      @@wait_timeout AS silence, @@collation_connection AS collation, SLEEP(0.1) AS slept`;
    const rows = await Promise.all([1, 2, 3, 4].map(async () => (await database.query(settings))[0]));
    expect(new Set(rows.map((row) => row?.['id'])).size).toBe(4);
    for (const row of rows) {
      expect(row).toMatchObject({ zone: '+00:00', wait: 1, silence: 1, collation: 'utf8mb4_bin' });
      expect(row?.['mode']).toMatch(/STRICT_TRANS_TABLES/);
      expect(row?.['mode']).not.toMatch(/ANSI_QUOTES|NO_BACKSLASH_ESCAPES/);
    }
  });

  it('read what is committed, also within one transaction', async () => {
    const seen = await database.transaction(async (tx) => {
      const before = await tx.query('SELECT n FROM item WHERE id = ?', ['c']);
      await other.execute(add, ['c']);
      return [before, await tx.query('SELECT n FROM item WHERE id = ?', ['c'])];
    });
    expect(seen).toEqual([[{ n: 0 }], [{ n: 1 }]]);
  });

  it('run both transactions of a deadlock to their end', async () => {
    const before = [await n('a'), await n('b')] as number[];
    let attempts = 0;
    const both = async (first: string, second: string): Promise<void> =>
      database.transaction(async (tx) => {
        attempts++;
        await tx.execute(add, [first]);
        await clock.sleep(30);
        await tx.execute(add, [second]);
      });
    await Promise.all([both('a', 'b'), both('b', 'a')]);
    expect(attempts).toBeGreaterThan(2);
    expect([await n('a'), await n('b')]).toEqual([before[0]! + 2, before[1]! + 2]);
  });

  it('wait again for a row that is held longer than the lock wait', async () => {
    const before = (await n('a')) as number;
    let waiting: Promise<unknown> | undefined;
    await database.transaction(async (tx) => {
      await tx.execute(add, ['a']);
      waiting = other.transaction((theirs) => theirs.execute(add, ['a']));
      await tx.query('SELECT SLEEP(1.2)');
    });
    await waiting;
    expect(await n('a')).toBe(before + 2);
  });

  it('are replaced when the server ends them, and the work is repeated', async () => {
    const before = (await n('a')) as number;
    let attempts = 0;
    await database.transaction(async (tx) => {
      const [row] = await tx.query<{ id: number }>('SELECT CONNECTION_ID() AS id');
      await tx.execute(add, ['a']);
      if (attempts++ === 0) await other.execute(`KILL ${row!.id}`);
      await tx.execute(add, ['a']);
    });
    expect(attempts).toBe(2);
    expect(await n('a')).toBe(before + 2);
  });

  it('free the rows of a stopped process before its lease ends', async () => {
    const before = (await n('b')) as number;
    let attempts = 0;
    let heldMs = 0;
    await database.transaction(async (tx) => {
      await tx.execute(add, ['b']);
      if (attempts++ > 0) return;
      // As a stopped process does: holds the row and says nothing, until another owner has written.
      const startMs = clock.monotonicMs();
      await other.transaction((theirs) => theirs.execute(add, ['b']));
      heldMs = clock.monotonicMs() - startMs;
    });
    expect(heldMs).toBeLessThan(LEASE_TTL_MS);
    expect(attempts).toBe(2);
    expect(await n('b')).toBe(before + 2);
  });

  it('are not found dead after a time of silence', async () => {
    expect(await n('a')).toBeDefined();
    await clock.sleep(2_500);
    const [[row]] = await Promise.all([database.query('SELECT 1 AS one'), n('a'), n('b')]);
    expect(row).toEqual({ one: 1 });
  });

  it('give up a statement that takes too long', async () => {
    const startMs = clock.monotonicMs();
    await expect(database.execute('DO SLEEP(30)')).rejects.toThrow(UnavailableError);
    expect(clock.monotonicMs() - startMs).toBeLessThan(2_500);
    expect(await n('a')).toBeDefined();
  });

  it('are refused in time where no server is', async () => {
    await expect(test.open({ url: 'mysql://root@127.0.0.1:1/butler' })).rejects.toThrow(UnavailableError);
  });
});
