import { describe, expect, it } from '@jest/globals';
import { ManualClock } from '#test-kit';
import { UnavailableError } from '../unavailable.error.js';
import { GroupCommit } from './group-commit.js';
import { RunAlone } from './grouping.js';
import type { Dialect } from './dialect.js';
import { type RawTx, SpoiledGroupError, TransactionGroup } from './transaction-group.js';
import { HELD, type Query, type Question, type Row, type Statement, type Tx, type Writing } from './tx.js';

type Work<T> = (tx: Tx) => Promise<T>;

/** Answers each key with itself, and leaves out what is held. */
class Echo implements Question<string, { key: string }> {
  readonly held = new Set<string>();

  constructor(readonly rank: number) {}

  name(key: string): string {
    return key;
  }

  queries(_dialect: unknown, keys: readonly string[], skipLocked: boolean): Query[] {
    return [{ sql: String(this.rank), values: keys.filter((key) => !skipLocked || !this.held.has(key)) }];
  }

  answers([rows]: readonly Row[][], keys: readonly string[]) {
    const found = new Set(rows!.map(({ key }) => key));
    return keys.map((key) => (found.has(key) ? { key } : HELD));
  }
}

/** A transaction whose every SELECT answers its parameters, and which keeps what came in one round trip. */
class EchoTx implements RawTx {
  readonly dialect = {} as Dialect;
  readonly uncertain = false;

  constructor(private readonly packets: string[][]) {}

  query = (): Promise<never> => Promise.reject(new Error('not used'));
  execute = (): Promise<never> => Promise.reject(new Error('not used'));

  queryAll(queries: readonly Query[]): Promise<Row[][]> {
    this.packets.push(queries.map(({ sql, values }) => `${sql}: ${values.join(' ')}`));
    return Promise.resolve(queries.map(({ values }) => values.map((key) => ({ key }) as Row)));
  }
}

const WRITTEN: Writing<string> = {
  rank: 1,
  statements: (rows): Statement[] => [{ sql: 'write', values: [...rows], matches: rows.length }],
};

/** Runs groups without a database. */
class Groups {
  readonly sizes: number[] = [];
  readonly packets: string[][] = [];
  readonly written: string[] = [];
  fail: Error | null = null;
  readonly clock = new ManualClock();
  /** What a transaction waits for before anything of it is run. */
  hold: (isAlone: boolean) => Promise<void> | undefined = () => undefined;
  readonly commit = new GroupCommit((works, skipLocked) => this.transact(works, skipLocked), this.clock);

  join<T>(work: Work<T>, lane = String(Math.random())): Promise<T> {
    return this.commit.join(work, { lane, bytes: 1 });
  }

  private async transact<T>(works: readonly Work<T>[], skipLocked: boolean) {
    this.sizes.push(works.length);
    const held = this.hold(!skipLocked);
    if (held) await held;
    if (this.fail) throw this.fail;
    const group = new TransactionGroup(new EchoTx(this.packets), skipLocked);
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
  expect(groups.packets).toEqual([['1: a1 a2'], ['1: b1 b2 b3']]);
});

it('answers what several ask once, with the very same object', async () => {
  const groups = new Groups();
  const echo = new Echo(1);
  const [one, other] = await Promise.all([
    groups.join((tx) => tx.ask(echo, 'same')),
    groups.join((tx) => tx.ask(echo, 'same')),
  ]);
  expect(one).toBe(other);
  expect(groups.packets).toEqual([['1: same']]);
});

it('answers everything that is asked at the same time in one round trip, in the one lock order', async () => {
  const groups = new Groups();
  const [turn, session, reads] = [new Echo(1), new Echo(2), new Echo(3)];
  await Promise.all([
    groups.join((tx) => Promise.all([tx.ask(reads, 'r1'), tx.ask(session, 's1')])),
    groups.join(async (tx) => {
      await Promise.all([tx.ask(session, 's2'), tx.ask(turn, 't2')]);
      await tx.ask(reads, 'r2');
    }),
  ]);
  expect(groups.packets).toEqual([['1: t2', '2: s1 s2', '3: r1'], ['3: r2']]);
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

describe('what is not begun within 5 s', () => {
  const OVER_MS = 5_000;

  it('because those before it hang is refused', async () => {
    const groups = new Groups();
    const { promise, resolve: goOn } = Promise.withResolvers<void>();
    groups.hold = () => promise;
    const begun: string[] = [];
    const run = async (name: string): Promise<unknown> => groups.join(async () => begun.push(name));
    const hanging = [run('one')];
    await groups.clock.advance(0);
    hanging.push(run('two'));
    await groups.clock.advance(0);
    const refused = refusalsOf([run('first'), run('later')]);
    await groups.clock.advance(OVER_MS - 1);
    expect(refused).toEqual([]);
    const last = run('last');
    await groups.clock.advance(1);
    expect(refused).toEqual([UnavailableError, UnavailableError]);
    goOn();
    await Promise.all([...hanging, last]);
    expect(begun).toEqual(['one', 'two', 'last']);
    expect(groups.clock.pending).toBe(0);
  });

  it('because too many run by themselves is refused, and the next one of its lane goes with others again', async () => {
    const groups = new Groups();
    const echo = new Echo(1);
    const { promise, resolve: goOn } = Promise.withResolvers<void>();
    groups.hold = (isAlone) => (isAlone ? promise : undefined);
    for (let at = 0; at < 6; at++) echo.held.add(`held${at}`);
    const ask = (key: string, lane = key): Promise<unknown> => groups.join((tx) => tx.ask(echo, key), lane);
    const [one, two, three, four, ...others] = Array.from({ length: 6 }, (_, at) => ask(`held${at}`));
    await groups.clock.advance(0);
    const refused = refusalsOf([...others, ask('free', 'held0'), ask('free', 'held4')]);
    await groups.clock.advance(OVER_MS);
    expect(refused).toEqual([UnavailableError, UnavailableError, UnavailableError, UnavailableError]);
    await ask('free', 'held4');
    goOn();
    await Promise.all([one, two, three, four]);
    expect(groups.sizes).toEqual([6, 1, 1, 1, 1, 1]);
    expect(groups.clock.pending).toBe(0);
  });

  /** What they have been refused with, so far. */
  function refusalsOf(works: readonly Promise<unknown>[]): unknown[] {
    const refusals: unknown[] = [];
    for (const work of works) work.catch((error: object) => refusals.push(error.constructor));
    return refusals;
  }
});
