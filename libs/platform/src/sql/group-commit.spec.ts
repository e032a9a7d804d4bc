import { expect, it } from '@jest/globals';
import { UnavailableError } from '../unavailable.error.js';
import { GroupCommit } from './group-commit.js';
import { RunAlone } from './grouping.js';
import { SpoiledGroupError, TransactionGroup } from './transaction-group.js';
import { HELD, type Question, type SqlRunner, type Statement, type Tx, type Writing } from './tx.js';

type Work<T> = (tx: Tx) => Promise<T>;

const RAW = { uncertain: false } as SqlRunner & { uncertain: boolean };

/** Answers each key with itself, and keeps which keys were asked at once. */
class Echo implements Question<string, string | { key: string }> {
  readonly asked: string[][] = [];
  readonly held = new Set<string>();

  constructor(
    readonly rank: number,
    private readonly log: string[] = [],
  ) {}

  name(key: string): string {
    return key;
  }

  answer(_runner: SqlRunner, keys: readonly string[], skipLocked: boolean) {
    this.asked.push([...keys]);
    this.log.push(`${this.rank}: ${keys.join(' ')}`);
    return Promise.resolve(keys.map((key) => (skipLocked && this.held.has(key) ? HELD : { key })));
  }
}

const WRITTEN: Writing<string> = {
  rank: 1,
  statements: (rows): Statement[] => [{ sql: 'write', values: [...rows], matches: rows.length }],
};

/** Runs groups without a database. */
class Groups {
  readonly sizes: number[] = [];
  readonly written: string[] = [];
  fail: Error | null = null;
  readonly commit = new GroupCommit((works, skipLocked) => this.transact(works, skipLocked));

  join<T>(work: Work<T>, lane = String(Math.random())): Promise<T> {
    return this.commit.join(work, { lane, bytes: 1 });
  }

  private async transact<T>(works: readonly Work<T>[], skipLocked: boolean) {
    this.sizes.push(works.length);
    if (this.fail) throw this.fail;
    const group = new TransactionGroup(RAW, skipLocked);
    const outcomes = await group.run(works);
    for (const { values } of group.statements()) this.written.push(...(values as string[]));
    return outcomes;
  }
}

it('what arrives while a group is under way joins the next one', async () => {
  const groups = new Groups();
  const echo = new Echo(1);
  const first = [1, 2].map((n) => groups.join((tx) => tx.ask(echo, `a${n}`)));
  await Promise.resolve();
  const second = [1, 2, 3].map((n) => groups.join((tx) => tx.ask(echo, `b${n}`)));
  await Promise.all([...first, ...second]);
  expect(groups.sizes).toEqual([2, 3]);
  expect(echo.asked).toEqual([
    ['a1', 'a2'],
    ['b1', 'b2', 'b3'],
  ]);
});

it('answers what several ask once, with the very same object', async () => {
  const groups = new Groups();
  const echo = new Echo(1);
  const [one, other] = await Promise.all([
    groups.join((tx) => tx.ask(echo, 'same')),
    groups.join((tx) => tx.ask(echo, 'same')),
  ]);
  expect(one).toBe(other);
  expect(echo.asked).toEqual([['same']]);
});

it('keeps the lock order for the whole group: nobody gets a later lock while somebody waits for an earlier one', async () => {
  const groups = new Groups();
  const log: string[] = [];
  const turn = new Echo(1, log);
  const session = new Echo(2, log);
  await Promise.all([
    groups.join((tx) => tx.ask(session, 's1')),
    groups.join(async (tx) => {
      await tx.ask(turn, 't2');
      await tx.ask(session, 's2');
    }),
  ]);
  expect(log).toEqual(['1: t2', '2: s1 s2']);
});

it('runs a work that would wait for a row by itself, and the later ones of its lane behind it', async () => {
  const groups = new Groups();
  const echo = new Echo(1);
  echo.held.add('held');
  const order: string[] = [];
  const say = (name: string, key: string) => async (tx: Tx) => {
    await tx.ask(echo, key);
    tx.write(WRITTEN, name);
    order.push(name);
  };
  await Promise.all([
    groups.join(say('one', 'held'), 'lane'),
    groups.join(say('two', 'held'), 'lane'),
    groups.join(say('other', 'free'), 'elsewhere'),
  ]);
  expect(order).toEqual(['other', 'one', 'two']);
  expect(groups.written).toEqual(['other', 'one', 'two']);
});

it('a work that fails before it has written anything leaves the others standing', async () => {
  const groups = new Groups();
  const good = groups.join(async (tx) => tx.write(WRITTEN, 'good'));
  const bad = groups.join(() => Promise.reject(new Error('refused')));
  await expect(bad).rejects.toThrow('refused');
  await good;
  expect(groups.written).toEqual(['good']);
  expect(groups.sizes).toEqual([2]);
});

it('a work that fails after it has written fails alone: the others are run again without it', async () => {
  const groups = new Groups();
  const good = groups.join(async (tx) => tx.write(WRITTEN, 'good'));
  const bad = groups.join((tx) => {
    tx.write(WRITTEN, 'bad');
    return Promise.reject(new Error('too late'));
  });
  await expect(bad).rejects.toThrow(SpoiledGroupError);
  await good;
  expect(groups.written).toEqual(['good']);
  expect(groups.sizes).toEqual([2, 1, 1]);
});

it('when the database is away all of a group are told, and none is tried by itself', async () => {
  const groups = new Groups();
  groups.fail = new UnavailableError('database', 'away');
  const works = [1, 2, 3].map(() => groups.join(() => Promise.resolve()));
  for (const { status } of await Promise.allSettled(works)) expect(status).toBe('rejected');
  expect(groups.sizes).toEqual([3]);
});

it('a work may ask to be run alone', async () => {
  const groups = new Groups();
  let runs = 0;
  const work = groups.join(() =>
    ++runs === 1 ? Promise.reject(new RunAlone('not with others')) : Promise.resolve('done'),
  );
  expect(await work).toBe('done');
  expect(groups.sizes).toEqual([1, 1]);
});
