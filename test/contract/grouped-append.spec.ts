import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type Append, EventTooLargeError, SqlEventLedger, type Writer } from '#event-ledger';
import { type Database, StepPoints, SystemRandomness, TRANSACTION_ATTEMPTS, UnavailableError } from '#platform';
import { type Event, type EventDraft, type SessionKey, StaleOwnerError } from '#protocol';
import { DATABASE_KINDS, TestDatabase } from '#test-kit';

const random = new SystemRandomness();
const OWNER: Writer = { kind: 'owner', epoch: 1 };

/** Counts commits, holds them, or loses their answers. */
class CommitSteps extends StepPoints {
  commits = 0;
  lose: string[] = [];
  private gate: Promise<void> | undefined;
  private open: () => void = () => undefined;

  hold(): void {
    this.gate = new Promise((resolve) => (this.open = resolve));
  }

  release(): void {
    this.gate = undefined;
    this.open();
  }

  override reach(name: string): Promise<void> | undefined {
    if (this.lose[0] === name) {
      this.lose.shift();
      return Promise.reject(new Error('the connection broke'));
    }
    if (name !== 'database.committing') return undefined;
    this.commits++;
    return this.gate;
  }
}

function text(words: string): EventDraft {
  return { type: 'model.text', turn: null, data: { step: 'model:1', attempt: 1, offset: 0, text: words } };
}

function words(events: readonly Event[]): unknown[] {
  return events.filter(({ type }) => type === 'model.text').map(({ data }) => (data as { text: string }).text);
}

describe.each(DATABASE_KINDS)('grouped appends on %s', (kind) => {
  let test: TestDatabase;
  let database: Database;
  let ledger: SqlEventLedger;
  const steps = new CommitSteps();

  beforeAll(async () => {
    test = await TestDatabase.create(kind);
    ({ database } = await test.openMigrated({ lockWaitS: 1, poolSize: 24, connectionWaitMs: 20_000 }, { steps }));
    ledger = new SqlEventLedger(database);
  });

  afterEach(() => {
    steps.release();
    steps.lose = [];
    steps.commits = 0;
  });

  afterAll(() => test.drop());

  /** Sessions whose owner has epoch 1; their events begin at seq 2. */
  async function sessions(count: number): Promise<SessionKey[]> {
    const account = random.id();
    const made = Array.from({ length: count }, (_, i) => ({ account, sessionId: `s${i}` }));
    for (const session of made) {
      await database.transaction(async (tx) => {
        const head = await ledger.openHead(tx, session);
        const writer: Writer = { kind: 'claim', epoch: 1, pod: { podId: 'pod', boot: 'boot' } };
        ledger.append(tx, head, { id: random.id(), writer, events: [] });
      });
    }
    steps.commits = 0;
    return made;
  }

  const append = (session: SessionKey, said: string, of: Partial<Append> = {}): Promise<Event[]> =>
    ledger.appendGrouped(session, { id: random.id(), writer: OWNER, events: [text(said)], ...of });
  const said = async (session: SessionKey): Promise<unknown[]> => words(await ledger.events(session, 0, 1000));

  it('share one commit when they come together', async () => {
    const all = await sessions(60);
    const events = await Promise.all(all.map((session, i) => append(session, `${i}`)));
    expect(steps.commits).toBe(1);
    expect(events.map(words)).toEqual(all.map((_, i) => [`${i}`]));
    expect(events.map(([event]) => event?.seq)).toEqual(all.map(() => 2));
    expect(await ledger.events(all[7]!, 1, 9)).toEqual(events[7]);
  });

  it('go together while one commits, those of its session behind it', async () => {
    const all = await sessions(30);
    steps.hold();
    const first = append(all[0]!, 'first');
    while (steps.commits === 0) await new Promise(setImmediate);
    const rest = all.map((session) => append(session, 'next'));
    steps.release();
    await Promise.all([first, ...rest]);
    // The first, all others beside it, and behind it the other one of its session.
    expect(steps.commits).toBe(3);
    expect(await said(all[0]!)).toEqual(['first', 'next']);
  });

  it('keep the order of one session, within a group and across groups', async () => {
    const [session] = await sessions(1);
    const waiting: Promise<unknown>[] = [];
    for (let i = 0; i < 100; i++) {
      waiting.push(append(session!, `${i}`));
      // Some groups are on their way by then.
      if (i % 10 === 0) await new Promise(setImmediate);
    }
    await Promise.all(waiting);
    expect(steps.commits).toBeGreaterThan(1);
    expect(await said(session!)).toEqual(Array.from({ length: 100 }, (_, i) => `${i}`));
  });

  it('leave the others standing when a fence refuses one, and tell only that one', async () => {
    const [a, b, c] = await sessions(3);
    const outcomes = await Promise.allSettled([
      append(a!, 'a'),
      append(b!, 'stale', { writer: { kind: 'owner', epoch: 9 } }),
      append(b!, 'good'),
      append(c!, 'claim', { writer: { kind: 'claim', epoch: 2, pod: { podId: 'p', boot: 'b' } } }),
      append(c!, 'former'),
      append(c!, 'present', { writer: { kind: 'owner', epoch: 2 } }),
      append({ account: 'acc', sessionId: 'unknown' }, 'unknown'),
    ]);
    expect(outcomes.map(({ status }) => status === 'fulfilled')).toEqual([true, false, true, true, false, true, false]);
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(StaleOwnerError);
    }
    expect([await said(a!), await said(b!), await said(c!)]).toEqual([['a'], ['good'], ['claim', 'present']]);
    expect(await ledger.ownerEpoch(c!)).toBe(2);
    expect((await ledger.events(c!, 1, 9)).map(({ seq }) => seq)).toEqual([2, 3, 4]);
  });

  it('leave the others standing when one cannot be stored', async () => {
    const [a, b, c] = await sessions(3);
    const outcomes = await Promise.allSettled([
      append(a!, 'a'),
      append(b!, 'before'),
      append(b!, 'poisoned', { id: null as unknown as string }),
      append(b!, 'after'),
      append(c!, 'c'),
    ]);
    expect(outcomes.map(({ status }) => status === 'fulfilled')).toEqual([true, true, false, true, true]);
    expect([await said(a!), await said(b!), await said(c!)]).toEqual([['a'], ['before', 'after'], ['c']]);
  });

  it('are refused before they join when one event is too large', async () => {
    const [a, b] = await sessions(2);
    const outcomes = await Promise.allSettled([append(a!, 'x'.repeat(8 * 1024 * 1024)), append(b!, 'b')]);
    expect(outcomes[0]).toMatchObject({ status: 'rejected', reason: expect.any(EventTooLargeError) as unknown });
    expect([await said(a!), await said(b!)]).toEqual([[], ['b']]);
  });

  it('are bounded in bytes, and one that is larger goes by itself', async () => {
    const all = await sessions(9);
    const quarter = `"`.repeat(150 * 1024);
    await Promise.all([...all.map((session) => append(session, quarter)), append(all[0]!, '🧈'.repeat(1_500_000))]);
    expect(steps.commits).toBeGreaterThanOrEqual(4);
    expect(steps.commits).toBeLessThanOrEqual(6);
    expect(await said(all[0]!)).toEqual([quarter, '🧈'.repeat(1_500_000)]);
  });

  it.each(['database.committed', 'database.committing'])('are not doubled when %s is lost', async (lose) => {
    const all = await sessions(5);
    steps.lose = [lose];
    const claim: Writer = { kind: 'claim', epoch: 2, pod: { podId: 'p', boot: 'b' } };
    const outcomes = await Promise.allSettled([
      ...all.map((session) => append(session, 'one')),
      ...all.map((session) => append(session, 'two')),
      append(all[0]!, 'claim', { writer: claim }),
      append(all[0]!, 'former'),
    ]);
    expect(outcomes.slice(0, -1).every(({ status }) => status === 'fulfilled')).toBe(true);
    expect(outcomes.at(-1)?.status).toBe('rejected');
    expect(await said(all[0]!)).toEqual(['one', 'two', 'claim']);
    for (const session of all.slice(1)) expect(await said(session)).toEqual(['one', 'two']);
    expect(await ledger.lastSeqs(all)).toEqual([5, 3, 3, 3, 3]);
  });

  it('are found again when their caller repeats them after no COMMIT got an answer', async () => {
    const [session] = await sessions(1);
    steps.lose = Array<string>(TRANSACTION_ATTEMPTS).fill('database.committed');
    const id = random.id();
    await expect(append(session!, 'once', { id })).rejects.toThrow(UnavailableError);
    await append(session!, 'other');
    const events = await append(session!, 'once', { id });
    expect(events.map(({ seq }) => seq)).toEqual([2]);
    expect(await said(session!)).toEqual(['once', 'other']);
  });

  it('are refused from inside a transaction', async () => {
    const [session] = await sessions(1);
    await database.transaction(async (tx) => {
      await ledger.lockHead(tx, session!);
      await expect(append(session!, 'nested')).rejects.toThrow('from inside a transaction');
    });
  });

  it('lose nothing and double nothing beside plain appends of 24 writers', async () => {
    const all = await sessions(6);
    const seqs = new Map(all.map((session) => [session.sessionId, [] as number[]]));
    await Promise.all(
      Array.from({ length: 24 }, async (_, writer) => {
        for (let i = 0; i < 15; i++) {
          const session = all[(writer * 7 + i) % all.length]!;
          const plain = async (): Promise<Event[]> =>
            database.transaction(async (tx) => {
              const head = (await ledger.lockHead(tx, session))!;
              return ledger.append(tx, head, { id: random.id(), writer: { kind: 'producer' }, events: [text('p')] });
            });
          const events = await ((writer + i) % 3 === 0 ? plain() : append(session, 'g'));
          seqs.get(session.sessionId)!.push(...events.map(({ seq }) => seq));
        }
      }),
    );
    for (const session of all) {
      const mine = seqs.get(session.sessionId)!.sort((a, b) => a - b);
      expect(mine).toEqual(mine.map((_, i) => i + 2));
      expect((await ledger.events(session, 1, 1000)).map(({ seq }) => seq)).toEqual(mine);
    }
  }, 60_000);

  // SQLite runs one transaction at a time: there is no row that somebody else could hold.
  if (kind === 'sqlite') return;

  it('do not wait for a session that somebody else has locked', async () => {
    const [a, b, c] = await sessions(3);
    let unlock: () => void = () => undefined;
    let locked: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (unlock = resolve));
    const holding = new Promise<void>((resolve) => (locked = resolve));
    const holder = database.transaction(async (tx) => {
      await ledger.lockHead(tx, b!);
      locked();
      await held;
    });
    await holding;
    const order: string[] = [];
    const write = async (session: SessionKey, each: string): Promise<void> => {
      await append(session, each);
      order.push(each);
    };
    const waiting = [write(b!, 'b1'), write(b!, 'b2')];
    await Promise.all([write(a!, 'a1'), write(c!, 'c1')]);
    waiting.push(write(b!, 'b3'));
    await Promise.all([write(a!, 'a2'), write(c!, 'c2')]);
    expect(order).toEqual(['a1', 'c1', 'a2', 'c2']);
    unlock();
    await Promise.all([holder, ...waiting]);
    expect(await said(b!)).toEqual(['b1', 'b2', 'b3']);
  });
});
