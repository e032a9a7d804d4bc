import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Database, StepPoints, SystemClock, TRANSACTION_ATTEMPTS, type Tx, UnavailableError } from '#platform';
import { DATABASE_KINDS, TestDatabase } from '#test-kit';

const clock = new SystemClock();

/** Fails at each of these step points, once. */
class FailingSteps extends StepPoints {
  constructor(private readonly names: string[]) {
    super();
  }

  override reach(name: string): Promise<void> | undefined {
    if (this.names[0] !== name) return undefined;
    this.names.shift();
    return Promise.reject(new Error('the connection broke'));
  }
}

describe.each(DATABASE_KINDS)('the database on %s', (kind) => {
  let test: TestDatabase;
  let database: Database;
  const steps: string[] = [];

  beforeAll(async () => {
    test = await TestDatabase.create(kind);
    ({ database } = await test.open({ connectionWaitMs: 300, poolSize: 4 }, { steps: new FailingSteps(steps) }));
    const [id, text] =
      kind === 'mysql'
        ? ['varchar(64) CHARACTER SET ascii COLLATE ascii_bin', 'longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin']
        : ['varchar(64)', 'text'];
    await database.execute(`CREATE TABLE item (id ${id} NOT NULL PRIMARY KEY, n bigint NOT NULL, words ${text})`);
  });

  afterAll(() => test.drop());

  const insert = (tx: Tx | Database, id: string, n = 0, words: string | null = null): Promise<number> =>
    tx.execute('INSERT INTO item (id, n, words) VALUES (?, ?, ?)', [id, n, words]);
  const read = async (id: string): Promise<unknown> =>
    (await database.query('SELECT id, n, words FROM item WHERE id = ?', [id]))[0];

  it('gives back texts and numbers as they were given, lone surrogates replaced', async () => {
    await insert(database, 'texts', Number.MAX_SAFE_INTEGER, `ä 🧈 \0 ' " \\ % ? \n \ud800`);
    expect(await read('texts')).toEqual({
      id: 'texts',
      n: 9007199254740991,
      words: `ä 🧈 \0 ' " \\ % ? \n \ufffd`,
    });
  });

  it('gives back a text of several MiB, whatever it is made of', async () => {
    const words = `"\\'🧈`.repeat(700_000);
    await database.transaction(async (tx) => {
      await insert(tx, 'large', 1, words);
      await insert(tx, 'large too', 2, words);
    });
    expect(await read('large')).toEqual({ id: 'large', n: 1, words });
    expect(await read('large too')).toEqual({ id: 'large too', n: 2, words });
  });

  it('keeps ids apart that differ in case only', async () => {
    await insert(database, 'acc', 1);
    await insert(database, 'ACC', 2);
    expect(await read('ACC')).toMatchObject({ n: 2 });
    expect(await read('acc')).toMatchObject({ n: 1 });
  });

  it('counts the rows that an update matched, also where it changed nothing', async () => {
    await insert(database, 'same', 7);
    expect(await database.execute('UPDATE item SET n = 7 WHERE id = ?', ['same'])).toBe(1);
    expect(await database.execute('UPDATE item SET n = 7 WHERE id = ?', ['none'])).toBe(0);
  });

  it('tells the time in ms', async () => {
    const before = Date.now();
    const [row] = await database.query<{ now: number }>(`SELECT ${database.dialect.nowMs()} AS now`);
    expect(row?.now).toBeGreaterThanOrEqual(before - 1000);
    expect(row?.now).toBeLessThanOrEqual(Date.now() + 1000);
  });

  it('keeps nothing of a transaction whose work fails, and passes the error on', async () => {
    const fault = new Error('as planned');
    const failing = database.transaction(async (tx) => {
      await insert(tx, 'undone');
      throw fault;
    });
    await expect(failing).rejects.toBe(fault);
    expect(await read('undone')).toBeUndefined();
  });

  it('commits nothing when the work swallows the failure of a statement', async () => {
    const swallowing = database.transaction(async (tx) => {
      await insert(tx, 'swallowed');
      await tx.query('SELECT nonsense FROM nowhere').catch(() => undefined);
      await insert(tx, 'swallowed too').catch(() => undefined);
    });
    await expect(swallowing).rejects.toThrow(/nowhere/);
    expect(await read('swallowed')).toBeUndefined();
    expect(await read('swallowed too')).toBeUndefined();
  });

  it('refuses a value that it cannot store, and goes on', async () => {
    const odd = [undefined, 'x'.repeat(1_100_000)] as unknown as string[];
    for (let i = 0; i < 6; i++) {
      await expect(database.execute('INSERT INTO item (id, n, words) VALUES (?, 1, ?)', odd)).rejects.toThrow();
    }
    expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('refuses a statement of a transaction that has ended', async () => {
    let ended: Tx | undefined;
    await database.transaction(async (tx) => {
      ended = tx;
      await insert(tx, 'ended');
    });
    await expect(insert(ended as Tx, 'late')).rejects.toThrow('the transaction has ended');
  });

  it('refuses every call of the database from inside a transaction', async () => {
    await database.transaction(async (tx) => {
      await insert(tx, 'outer');
      const nested = 'called from inside a transaction';
      await expect(database.query('SELECT 1')).rejects.toThrow(nested);
      await expect(database.execute('DELETE FROM item')).rejects.toThrow(nested);
      await expect(database.transaction(async () => undefined)).rejects.toThrow(nested);
    });
    expect(await read('outer')).toBeDefined();
  });

  it('lets what a transaction left running use the database afterwards', async () => {
    let go: () => void = () => undefined;
    const ended = new Promise<void>((resolve) => (go = resolve));
    let left: Promise<unknown> = Promise.resolve();
    await database.transaction(async () => {
      left = ended.then(() => database.query('SELECT 1 AS one'));
    });
    go();
    expect(await left).toEqual([{ one: 1 }]);
  });

  it('does not show uncommitted rows to others', async () => {
    let inserted: () => void = () => undefined;
    const seen = new Promise<void>((resolve) => (inserted = resolve)).then(() => read('hidden'));
    await database.transaction(async (tx) => {
      await insert(tx, 'hidden');
      inserted();
      await tx.query('SELECT 1');
      await tx.execute('DELETE FROM item WHERE id = ?', ['hidden']);
    });
    expect(await seen).toBeUndefined();
  });

  it('runs the work again, as uncertain, when the COMMIT got no answer but took place', async () => {
    steps.push('database.committed');
    const uncertain: boolean[] = [];
    await database.transaction(async (tx) => {
      uncertain.push(tx.uncertain);
      const [row] = await tx.query('SELECT n FROM item WHERE id = ?', ['answered']);
      if (!row) await insert(tx, 'answered');
    });
    expect(uncertain).toEqual([false, true]);
  });

  it('runs the work again, as uncertain, when the COMMIT got no answer and did not take place', async () => {
    steps.push('database.committing');
    const found: boolean[] = [];
    await database.transaction(async (tx) => {
      found.push((await tx.query('SELECT n FROM item WHERE id = ?', ['unanswered'])).length > 0);
      await insert(tx, 'unanswered');
    });
    expect(found).toEqual([false, false]);
    expect(await read('unanswered')).toBeDefined();
  });

  it('says that it may have happened when no COMMIT gets an answer', async () => {
    steps.push(...Array<string>(TRANSACTION_ATTEMPTS).fill('database.committing'));
    const silent = database.transaction((tx) => insert(tx, 'silent'));
    await expect(silent).rejects.toThrow(UnavailableError);
    await expect(silent).rejects.toThrow('may have been committed');
    expect(steps).toEqual([]);
  });

  it('runs the work again after a duplicate key, a named number of times', async () => {
    await insert(database, 'taken', 1);
    let attempts = 0;
    const stubborn = database.transaction(async (tx) => {
      attempts++;
      await insert(tx, 'taken');
    });
    await expect(stubborn).rejects.toThrow(UnavailableError);
    expect(attempts).toBe(TRANSACTION_ATTEMPTS);
    const wiser = database.transaction(async (tx) => {
      const [row] = await tx.query<{ n: number }>('SELECT n FROM item WHERE id = ?', ['taken']);
      return row && attempts > TRANSACTION_ATTEMPTS ? row.n : insert(tx, 'taken').finally(() => attempts++);
    });
    expect(await wiser).toBe(1);
  });

  it('refuses in time when all connections are taken, and goes on when they are free again', async () => {
    let free: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (free = resolve));
    const holders = Array.from({ length: 4 }, () =>
      database.transaction(async (tx) => {
        await tx.query('SELECT 1');
        await held;
      }),
    );
    // On SQLite three of the holders wait for the first, and give up as well.
    const outcomes = Promise.allSettled(holders);
    const startMs = clock.monotonicMs();
    await expect(database.query('SELECT 1 AS one')).rejects.toThrow(UnavailableError);
    expect(clock.monotonicMs() - startMs).toBeLessThan(1500);
    free();
    expect((await outcomes)[0]?.status).toBe('fulfilled');
    expect(await database.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('answers a ping, until it is closed', async () => {
    const other = await TestDatabase.create(kind);
    const open = await other.open();
    expect(await open.database.ping(1000)).toBe(true);
    await open.database.close();
    expect(await open.database.ping(1000)).toBe(false);
    await other.drop();
  });
});
