import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Append, SqlEventLedger, type Writer } from '#event-ledger';
import { type Database, StepPoints, SystemClock, SystemRandomness } from '#platform';
import { type Event, type EventDraft, type SessionKey, StaleOwnerError } from '#protocol';
import { DATABASE_KINDS, TestDatabase } from '#test-kit';

const random = new SystemRandomness();
const POD = { podId: 'pod', boot: 'boot' };
const PRODUCER: Writer = { kind: 'producer' };

/** Loses the answer of the next COMMIT. */
class LossySteps extends StepPoints {
  lose: string | null = null;

  override reach(name: string): Promise<void> | undefined {
    if (this.lose !== name) return undefined;
    this.lose = null;
    return Promise.reject(new Error('the connection broke'));
  }
}

function text(words: string, turnId = 't'): EventDraft {
  const data = { step: 'model:1', attempt: 1, offset: 0, text: words };
  return { type: 'model.text', turn: { turnId, generation: 1 }, data };
}

describe.each(DATABASE_KINDS)('the event ledger on %s', (kind) => {
  let test: TestDatabase;
  let database: Database;
  let ledger: SqlEventLedger;
  const steps = new LossySteps();

  beforeAll(async () => {
    test = await TestDatabase.create(kind);
    ({ database } = await test.openMigrated({ poolSize: 24, connectionWaitMs: 20_000 }, { steps }));
    ledger = new SqlEventLedger(database);
  });

  afterAll(() => test.drop());

  const newSession = (account = 'acc'): SessionKey => ({ account, sessionId: random.id() });
  const append = (session: SessionKey, of: Partial<Append>): Promise<Event[]> =>
    database.transaction(async (tx) => {
      const head = await ledger.openHead(tx, session);
      return ledger.append(tx, head, { id: random.id(), writer: PRODUCER, events: [], ...of });
    });

  it('numbers the events of a session from 1, and gives back what it stored', async () => {
    const session = newSession();
    const first = await append(session, { events: [text('one'), text('two')] });
    const second = await append(session, { events: [{ type: 'turn.completed', turn: null, data: {} }] });
    expect([...first, ...second].map(({ seq }) => seq)).toEqual([1, 2, 3]);
    expect(first[0]).toMatchObject({ type: 'model.text', turnId: 't', generation: 1, data: { text: 'one' } });
    expect(second[0]).toMatchObject({ turnId: null, generation: null });
    expect(first[0]?.at).toMatch(/^20..-..-..T..:..:..\....Z$/);
    expect(await ledger.events(session, 0, 100)).toEqual([...first, ...second]);
    expect(await ledger.events(session, 1, 1)).toEqual([first[1]]);
    expect(await ledger.eventsAt(database, session, [3, 1, 9])).toEqual([first[0], second[0]]);
    expect(await ledger.eventsAt(database, session, [])).toEqual([]);
    expect(await ledger.lastSeqs([newSession(), session])).toEqual([0, 3]);
  });

  it('stores any text, lone surrogates replaced, and answers it as readers get it', async () => {
    const session = newSession();
    const words = `ä 🧈 \0 ' " \\ \\ud800 \ud800`;
    const [event] = await append(session, { events: [text(words)] });
    expect(event).toMatchObject({ data: { text: `ä 🧈 \0 ' " \\ \\ud800 \ufffd` } });
    const odd = { callId: 'c', outcome: 'ok', output: { 'k\udfff': ['\ud800', 1e21, null] } } as const;
    const [result] = await append(session, { events: [{ type: 'tool.result', turn: null, data: odd }] });
    expect(result).toMatchObject({ data: { output: { 'k\ufffd': ['\ufffd', 1e21, null] } } });
    expect(await ledger.events(session, 0, 9)).toEqual([event, result]);
  });

  it('keeps accounts apart that differ in case only', async () => {
    const lower = newSession('acc');
    const upper = { ...lower, account: 'ACC' };
    await append(lower, { events: [text('lower')] });
    expect(await ledger.findSession(upper)).toBeNull();
    expect(await ledger.events(upper, 0, 9)).toEqual([]);
    await append(upper, { events: [text('upper')] });
    expect(await ledger.events(lower, 0, 9)).toHaveLength(1);
    expect(await ledger.listSessions('aCC', null, 9)).toEqual([]);
  });

  it('reads the events of one try of a turn', async () => {
    const session = newSession();
    const again: EventDraft = { type: 'turn.completed', turn: { turnId: 't', generation: 2 }, data: {} };
    await append(session, { events: [text('mine'), text('other', 'T'), again, text('mine too')] });
    const mine = await ledger.events(session, 0, 9, { turnId: 't', generation: 1 });
    expect(mine.map(({ seq }) => seq)).toEqual([1, 4]);
  });

  it('gives 24 concurrent writers gapless seqs, and a reader who pages by cursor misses none', async () => {
    const session = newSession();
    const sizes = Array.from({ length: 24 }, (_, writer) =>
      Array.from({ length: 8 }, (_, i) => ((writer + i) % 3) + 1),
    );
    const total = sizes.flat().reduce((sum, size) => sum + size, 0);
    const read: number[] = [];
    const reading = (async () => {
      while (read.length < total) {
        const page = await ledger.events(session, read.at(-1) ?? 0, 7);
        read.push(...page.map(({ seq }) => seq));
      }
    })();
    const written = await Promise.all(
      sizes.map(async (mine, writer) => {
        const seqs: number[] = [];
        for (const size of mine) {
          const events = await append(session, { events: Array(size).fill(text(`by ${writer}`)) as EventDraft[] });
          seqs.push(...events.map(({ seq }) => seq));
        }
        return seqs;
      }),
    );
    await reading;
    const gapless = Array.from({ length: total }, (_, i) => i + 1);
    expect(written.flat().sort((a, b) => a - b)).toEqual(gapless);
    expect(read).toEqual(gapless);
  }, 60_000);

  it('never hands a reader a row late: what was numbered first is committed first', async () => {
    const session = newSession();
    await append(session, { events: [text('one')] });
    let numbered: () => void = () => undefined;
    let commit: () => void = () => undefined;
    const slow = new Promise<void>((resolve) => (numbered = resolve));
    const held = new Promise<void>((resolve) => (commit = resolve));
    const first = database.transaction(async (tx) => {
      const head = (await ledger.lockHead(tx, session))!;
      ledger.append(tx, head, { id: 'first', writer: PRODUCER, events: [text('two')] });
      numbered();
      await held;
    });
    await slow;
    const second = append(session, { events: [text('three')] });
    const early = ledger.events(session, 1, 9);
    commit();
    await Promise.all([first, second]);
    const cursor = 1 + (await early).length;
    expect([...(await early), ...(await ledger.events(session, cursor, 9))].map(({ seq }) => seq)).toEqual([2, 3]);
  });

  it('lets one of two claims with the same epoch win', async () => {
    const session = newSession();
    await append(session, {});
    const claims = await Promise.allSettled(
      ['a', 'b'].map((podId) => append(session, { writer: { kind: 'claim', epoch: 5, pod: { podId, boot: 'x' } } })),
    );
    expect(claims.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const lost = claims.find((claim) => claim.status === 'rejected');
    expect(lost?.reason).toBeInstanceOf(StaleOwnerError);
    expect(await ledger.ownerEpoch(session)).toBe(5);
    const [event, ...more] = await ledger.events(session, 0, 9);
    expect(event).toMatchObject({ type: 'owner.changed', turnId: null, data: { boot: 'x', epoch: 5 } });
    expect(more).toEqual([]);
  });

  it('refuses lower epochs and former owners after a higher claim, and writes nothing for them', async () => {
    const session = newSession();
    const claim = (epoch: number): Promise<Event[]> =>
      append(session, { writer: { kind: 'claim', epoch, pod: POD }, events: [text(`claim ${epoch}`)] });
    const write = (epoch: number): Promise<Event[]> =>
      append(session, { writer: { kind: 'owner', epoch }, events: [text(`write ${epoch}`)] });
    await expect(write(1)).rejects.toThrow(StaleOwnerError);
    await claim(3);
    await write(3);
    await expect(claim(3)).rejects.toThrow(StaleOwnerError);
    await expect(claim(2)).rejects.toThrow(StaleOwnerError);
    await claim(4);
    await expect(write(3)).rejects.toThrow(StaleOwnerError);
    await expect(write(5)).rejects.toThrow(StaleOwnerError);
    await write(4);
    expect((await ledger.events(session, 0, 99)).map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await ledger.ownerEpoch(session)).toBe(4);
    expect(await ledger.ownerEpoch(newSession())).toBe(0);
  });

  it.each(['database.committed', 'database.committing'])('finds its own append after %s was lost', async (lose) => {
    const session = newSession();
    await append(session, { events: [text('before')] });
    steps.lose = lose;
    let fromSeq: number | null = null;
    const events = await database.transaction(async (tx) => {
      const head = (await ledger.lockHead(tx, session))!;
      fromSeq ??= head.nextSeq;
      const earlier = tx.uncertain ? await ledger.appended(tx, head, 'mine', fromSeq) : [];
      if (earlier.length > 0) return earlier;
      return ledger.append(tx, head, { id: 'mine', writer: PRODUCER, events: [text('a'), text('b')] });
    });
    expect(steps.lose).toBeNull();
    expect(events.map(({ seq }) => seq)).toEqual([2, 3]);
    expect((await ledger.events(session, 1, 9)).map(({ data }) => data)).toEqual([text('a').data, text('b').data]);
  });

  it('takes the time from the moment at which the session was locked', async () => {
    const session = newSession();
    await append(session, { events: [text('one')] });
    let locked: () => void = () => undefined;
    const first = new Promise<void>((resolve) => (locked = resolve));
    const slow = database.transaction(async (tx) => {
      const head = (await ledger.lockHead(tx, session))!;
      locked();
      await new SystemClock().sleep(60);
      return ledger.append(tx, head, { id: 'slow', writer: PRODUCER, events: [text('two')] });
    });
    await first;
    const waited = await append(session, { events: [text('three')] });
    expect(Date.parse(waited[0]!.at) - Date.parse((await slow)[0]!.at)).toBeGreaterThanOrEqual(40);
  });

  it('opens a session for 20 first writers at once', async () => {
    const session = newSession();
    const seqs = await Promise.all(Array.from({ length: 20 }, () => append(session, { events: [text('x')] })));
    expect(seqs.flatMap((events) => events.map(({ seq }) => seq)).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 20 }, (_, i) => i + 1),
    );
  });
});

describe.each(DATABASE_KINDS)('the sessions on %s', (kind) => {
  let test: TestDatabase;
  let ledger: SqlEventLedger;
  let database: Database;

  beforeAll(async () => {
    test = await TestDatabase.create(kind);
    ({ database } = await test.openMigrated());
    ledger = new SqlEventLedger(database);
  });

  afterAll(() => test.drop());

  const given = { title: 'Tïtle 🧈', metadata: { a: 1, b: 'x', c: true }, digest: 'd1' };

  it('are created once, however many do it at once', async () => {
    const session = { account: 'acc', sessionId: 'once' };
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => ledger.createSession(session, given)));
    expect(outcomes.filter(({ created }) => created)).toHaveLength(1);
    const again = await ledger.createSession(session, { title: null, metadata: null, digest: 'd2' });
    expect(again).toMatchObject({ created: false, row: { ...given, session, lastSeq: 0, ownerEpoch: 0 } });
    expect(again.row.createdAtMs).toBe(again.row.lastActivityAtMs);
    expect(await ledger.findSession(session)).toEqual(again.row);
  });

  it('that a first message opened equal no created one', async () => {
    const session = { account: 'acc', sessionId: 'opened' };
    await database.transaction(async (tx) => {
      const said = { id: random.id(), writer: PRODUCER, events: [text('hello')] };
      ledger.append(tx, await ledger.openHead(tx, session), said);
    });
    expect(await ledger.findSession(session)).toMatchObject({ title: null, metadata: null, digest: '' });
  });

  it('change in what is given, and only there', async () => {
    const session = { account: 'acc', sessionId: 'changed' };
    await ledger.createSession(session, given);
    expect(await ledger.updateSession(session, { title: 'new' })).toMatchObject({
      title: 'new',
      metadata: given.metadata,
    });
    expect(await ledger.updateSession(session, { metadata: null })).toMatchObject({ title: 'new', metadata: null });
    expect(await ledger.updateSession(session, {})).toMatchObject({ title: 'new', metadata: null });
    expect(await ledger.updateSession({ ...session, account: 'ACC' }, { title: 'x' })).toBeNull();
  });

  it('are listed by newest activity, page by page, each once', async () => {
    const sessions = Array.from({ length: 9 }, (_, i) => ({ account: 'list', sessionId: `s${i}` }));
    for (const session of sessions) await ledger.createSession(session, given);
    // Equal times are told apart by the id.
    await database.execute(`UPDATE session SET last_activity_at = 1000 WHERE account = 'list'`);
    await database.transaction(async (tx) => {
      const active = (await ledger.lockHead(tx, sessions[4]!))!;
      ledger.append(tx, active, { id: 'a', writer: PRODUCER, events: [text('hello')], activity: true });
    });
    await database.transaction(async (tx) => {
      const silent = (await ledger.lockHead(tx, sessions[5]!))!;
      ledger.append(tx, silent, { id: 'b', writer: PRODUCER, events: [text('step')] });
    });
    const listed: string[] = [];
    for (let after = null, more = true; more;) {
      const page = await ledger.listSessions('list', after, 2);
      listed.push(...page.map(({ session }) => session.sessionId));
      const last = page.at(-1);
      more = last !== undefined;
      if (last) after = { lastActivityAtMs: last.lastActivityAtMs, sessionId: last.session.sessionId };
    }
    expect(listed).toEqual(['s4', 's8', 's7', 's6', 's5', 's3', 's2', 's1', 's0']);
  });

  it('tell the last seqs of thousands in their order', async () => {
    const session = { account: 'acc', sessionId: 'last' };
    await database.transaction(async (tx) => {
      const head = await ledger.openHead(tx, session);
      ledger.append(tx, head, { id: 'a', writer: PRODUCER, events: [text('a'), text('b')] });
    });
    const unknown = Array.from({ length: 2500 }, (_, i) => ({ account: `a${i % 3}`, sessionId: `none${i}` }));
    const seqs = await ledger.lastSeqs([...unknown, session]);
    expect(seqs).toHaveLength(2501);
    expect(seqs.at(-1)).toBe(2);
    expect(new Set(seqs.slice(0, -1))).toEqual(new Set([0]));
  });
});
