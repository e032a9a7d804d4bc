import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Database, SystemRandomness, type Tx } from '#platform';
import { partitionOf, type SessionKey, type TurnMove, type TurnState } from '#protocol';
import { DATABASE_KINDS, TestDatabase } from '#test-kit';
import { type LiveTurn, type MoveFacts, type NewTurn, SqlTurns, type TurnRow } from '#turn-lifecycle';

const random = new SystemRandomness();

describe.each(DATABASE_KINDS)('the turns on %s', (kind) => {
  let test: TestDatabase;
  let database: Database;
  let turns: SqlTurns;
  let account: string;
  let session: SessionKey;

  beforeAll(async () => {
    test = await TestDatabase.create(kind);
    ({ database } = await test.openMigrated());
    turns = new SqlTurns(database);
  });

  beforeEach(() => {
    account = random.id();
    session = { account, sessionId: 's' };
  });

  afterAll(() => test.drop());

  const insert = (tx: Tx, turnId: string, seq: number, of: Partial<NewTurn> = {}, nowMs = 1000 + seq): TurnRow => {
    const sent = { mode: 'enqueue', kind: 'user', initiator: 'Zoë 🧈', metadata: null, digest: 'd' } as const;
    const turn = { account, turnId, sessionId: 's', parent: null, path: turnId, ...sent, ...of };
    return turns.insert(tx, turn, { seq, nowMs });
  };
  const queue = (turnId: string, seq: number, of: Partial<NewTurn> = {}, nowMs?: number): Promise<TurnRow> =>
    database.transaction(async (tx) => insert(tx, turnId, seq, of, nowMs));
  const move = (turnId: string, moved: TurnMove, facts: Partial<MoveFacts> = {}): Promise<TurnState> =>
    database.transaction(async (tx) =>
      turns.move(tx, (await turns.lock(tx, account, turnId))!, moved, { nowMs: 5000, ...facts }),
    );
  const find = (turnId: string) => turns.find(database, account, turnId);

  it('are stored with all that they say', async () => {
    const parent = { sessionId: 'p', turnId: 'parent', generation: 3 };
    const metadata = { a: 1, b: 'x\ud800', c: true };
    await queue('t', 7, { parent, path: 'parent/t', mode: 'steer', kind: 'report', metadata });
    expect(await find('t')).toEqual({
      account,
      turnId: 't',
      sessionId: 's',
      path: 'parent/t',
      parent,
      state: 'queued',
      generation: 1,
      queueSeq: 7,
      acceptedSeq: 7,
      contentSeq: 7,
      mode: 'steer',
      kind: 'report',
      initiator: 'Zoë 🧈',
      metadata: { ...metadata, b: 'x\ufffd' },
      digest: 'd',
      attempts: 0,
      absorbedBy: null,
      stop: null,
      error: null,
      acceptedAtMs: 1007,
      queuedAtMs: 1007,
      startedAtMs: null,
      endedAtMs: null,
      refusedAtMs: null,
    });
  });

  it('hold the longest path and initiator that the contract allows', async () => {
    const path = Array.from({ length: 9 }, () => 'x'.repeat(128)).join('/');
    const initiator = '🧈'.repeat(256);
    await queue('t', 1, { path, initiator });
    expect(await find('t')).toMatchObject({ path, initiator });
  });

  it('are told apart by case, of turns, sessions and accounts', async () => {
    await queue('a', 1);
    await queue('A', 2, { sessionId: 'S' });
    expect(await find('a')).toMatchObject({ turnId: 'a', sessionId: 's' });
    expect(await find('A')).toMatchObject({ turnId: 'A', sessionId: 'S' });
    expect(await turns.find(database, account.toUpperCase(), 'a')).toBeNull();
    expect((await turns.live(database, session)).map(({ turnId }) => turnId)).toEqual(['a']);
    expect(await turns.list({ account, sessionId: 'S' }, 0, 9, null)).toHaveLength(1);
  });

  it('move as the state table says, and only that way', async () => {
    await queue('t', 1);
    expect(await move('t', 'start', { attempts: 1, nowMs: 2000 })).toBe('running');
    expect(await move('t', 'start', { attempts: 2, nowMs: 3000 })).toBe('running');
    expect(await find('t')).toMatchObject({ attempts: 2, startedAtMs: 2000, endedAtMs: null });
    expect(await move('t', 'complete', { nowMs: 4000 })).toBe('completed');
    expect(await find('t')).toMatchObject({ state: 'completed', endedAtMs: 4000, error: null });
    await expect(move('t', 'stop')).rejects.toThrow('turn t is completed: it cannot stop');
    await expect(move('t', 'start')).rejects.toThrow('cannot start');
  });

  it('of one group move together, each as often and in the order in which it was moved', async () => {
    for (const [nth, turnId] of ['a', 'b', 'c'].entries()) await queue(turnId, nth + 1);
    await move('b', 'start', { attempts: 1, nowMs: 2000 });
    await database.transaction(async (tx) => {
      const [a, b, c] = await Promise.all(['a', 'b', 'c'].map((turnId) => turns.lock(tx, account, turnId)));
      turns.move(tx, b!, 'complete', { nowMs: 4000 });
      turns.move(tx, a!, 'start', { attempts: 1, nowMs: 3000 });
      turns.move(tx, c!, 'start', { attempts: 1, nowMs: 3000 });
      turns.move(tx, a!, 'complete', { nowMs: 4000 });
    });
    expect(await find('a')).toMatchObject({ state: 'completed', startedAtMs: 3000, endedAtMs: 4000 });
    expect(await find('b')).toMatchObject({ state: 'completed', startedAtMs: 2000, endedAtMs: 4000 });
    expect(await find('c')).toMatchObject({ state: 'running', startedAtMs: 3000, endedAtMs: null });
  });

  it('keep the first stop, and end as stopped without an error', async () => {
    await queue('t', 1);
    await move('t', 'start');
    expect(await move('t', 'stop', { nowMs: 6000, stop: { by: 'Zoë', reason: 'enough' } })).toBe('stop_requested');
    expect(await move('t', 'stop', { nowMs: 7000, stop: { by: 'other' } })).toBe('stop_requested');
    const error = { code: 'agent_error', message: 'aborted', retryable: true };
    expect(await move('t', 'fail', { nowMs: 8000, error })).toBe('stopped');
    const stop = { by: 'Zoë', reason: 'enough', atMs: 6000 };
    expect(await find('t')).toMatchObject({ state: 'stopped', stop, error: null, endedAtMs: 8000 });
  });

  it('keep why they failed and who absorbed them', async () => {
    await queue('t', 1);
    await queue('u', 2);
    await move('t', 'start');
    const error = { code: 'poisoned', message: 'five attempts', retryable: false };
    expect(await move('u', 'absorb', { absorbedBy: { turnId: 't', generation: 1 } })).toBe('completed');
    expect(await move('t', 'fail', { error })).toBe('failed');
    expect(await find('t')).toMatchObject({ error });
    expect(await find('u')).toMatchObject({ absorbedBy: { turnId: 't', generation: 1 } });
  });

  it('do not move on a row that has changed since', async () => {
    await queue('t', 1);
    const old = (await find('t'))!;
    await move('t', 'start');
    const late = database.transaction(async (tx) => turns.move(tx, old, 'stop', { nowMs: 1 }));
    await expect(late).rejects.toThrow('0 rows, not 1, match');
    const older = { ...(await find('t'))!, generation: 2 };
    const other = database.transaction(async (tx) => turns.move(tx, older, 'stop', { nowMs: 1 }));
    await expect(other).rejects.toThrow('0 rows, not 1, match');
  });

  it('are live in the order of their places until they have ended', async () => {
    await queue('third', 30);
    await queue('first', 10);
    await queue('second', 20, { parent: { sessionId: 'p', turnId: 'up', generation: 1 }, path: 'up/second' });
    await queue('ended', 5);
    await move('ended', 'stop');
    await move('first', 'start');
    const live = await turns.live(database, session);
    expect(live.map(({ turnId, queueSeq, state }) => [turnId, queueSeq, state])).toEqual([
      ['first', 10, 'running'],
      ['second', 20, 'queued'],
      ['third', 30, 'queued'],
    ]);
    expect(live[1]).toEqual({
      session,
      turnId: 'second',
      path: 'up/second',
      mode: 'enqueue',
      generation: 1,
      state: 'queued',
      queueSeq: 20,
      initiator: 'Zoë 🧈',
      parent: 'up',
    });
    await queue('report', 40, { kind: 'report' });
    expect(await turns.countQueued(database, session)).toBe(2);
  });

  it('count at once for what comes later in the same transaction', async () => {
    await database.transaction(async (tx) => {
      expect(turns.countInserted(tx, session)).toBe(0);
      const row = insert(tx, 't', 1);
      insert(tx, 'report', 2, { kind: 'report' });
      insert(tx, 'elsewhere', 1, { sessionId: 'other' });
      expect(turns.countInserted(tx, session)).toBe(1);
      expect(row).toMatchObject({ state: 'queued', generation: 1, queueSeq: 1, acceptedSeq: 1, contentSeq: 1 });
    });
    expect(await find('t')).toMatchObject({ state: 'queued', generation: 1, queueSeq: 1, queuedAtMs: 1001 });
  });

  it('tell the loads of many sessions in their order', async () => {
    await queue('a1', 1, { sessionId: 'a' });
    await queue('a2', 2, { sessionId: 'a' });
    await queue('a3', 3, { sessionId: 'a' });
    await move('a1', 'start', { attempts: 4, nowMs: 2000 });
    await queue('b1', 1, { sessionId: 'b' });
    await move('b1', 'stop');
    const many = Array.from({ length: 1500 }, (_, i) => ({ account, sessionId: `none${i}` }));
    const of = (sessionId: string): SessionKey => ({ account, sessionId });
    const loads = await turns.loads([of('b'), ...many, of('a')]);
    expect(loads.at(-1)).toEqual({
      queued: 2,
      running: { turnId: 'a1', generation: 1, state: 'running', attempts: 4, startedAtMs: 2000 },
    });
    expect(loads.slice(0, -1).every(({ queued, running }) => queued === 0 && running === null)).toBe(true);
  });

  it('are listed by place, page by page, also by state', async () => {
    for (let i = 1; i <= 5; i++) await queue(`t${i}`, i * 10);
    await move('t2', 'start');
    await move('t4', 'stop');
    const ids = (rows: { turnId: string }[]): string[] => rows.map(({ turnId }) => turnId);
    expect(ids(await turns.list(session, 0, 2, null))).toEqual(['t1', 't2']);
    expect(ids(await turns.list(session, 20, 9, null))).toEqual(['t3', 't4', 't5']);
    expect(ids(await turns.list(session, 0, 9, 'queued'))).toEqual(['t1', 't3', 't5']);
    expect(ids(await turns.list(session, 0, 9, 'stopped'))).toEqual(['t4']);
  });

  it('that are live are paged through by partition, session and place, each once', async () => {
    const all: LiveTurn[] = [];
    for (let i = 0; i < 40; i++) {
      const of = { account: `${account}${'aA'[i % 2]}`, sessionId: `s${i % 5}` };
      await queue(`t${i}`, 100 + i, of, 1000 + i);
      all.push(...(await turns.live(database, of)).slice(-1));
    }
    const partitions = [...new Set(all.map((turn) => partitionOf(turn.session)))].sort((a, b) => a - b);
    const page = async (limit: number, before: number, parts = partitions): Promise<LiveTurn[]> => {
      const read: LiveTurn[] = [];
      for (let more = true; more;) {
        const next = await turns.liveIn(parts, before, read.at(-1) ?? null, limit);
        read.push(...next);
        more = next.length > 0;
      }
      return read.filter((turn) => turn.session.account.startsWith(account));
    };
    const key = (turn: LiveTurn): string =>
      `${String(partitionOf(turn.session)).padStart(3, '0')} ${turn.session.account} ${turn.session.sessionId} ${turn.queueSeq}`;
    const expected = all.map(key).sort();
    expect((await page(3, 2000)).map(key)).toEqual(expected);
    expect((await page(1000, 2000)).map(key)).toEqual(expected);
    expect(await page(7, 1019)).toHaveLength(20);
    expect((await page(3, 2000, partitions.slice(1))).map(key)).toEqual(
      expected.filter((each) => !each.startsWith(String(partitions[0]).padStart(3, '0'))),
    );
    expect(await turns.liveIn([], 2000, null, 9)).toEqual([]);
  });

  it('tell the states of many, null for another generation and for unknown ones', async () => {
    await queue('t', 1);
    await queue('u', 2);
    await move('u', 'start');
    const asked = [
      { account, turnId: 'u', generation: 1 },
      { account, turnId: 't', generation: 2 },
      { account: account.toUpperCase(), turnId: 't', generation: 1 },
      { account, turnId: 't', generation: 1 },
    ];
    expect(await turns.states(asked)).toEqual(['running', null, null, 'queued']);
    expect(await turns.states([])).toEqual([]);
  });

  it('tell the time of the ledger', async () => {
    expect(Math.abs((await turns.nowMs()) - Date.now())).toBeLessThan(2000);
  });

  it('are inserted once, however many insert at once', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 6 }, (_, i) =>
        database.transaction(async (tx) => {
          if (await turns.lock(tx, account, 't')) return 'found';
          insert(tx, 't', i + 1);
          return 'inserted';
        }),
      ),
    );
    expect(outcomes.sort()).toEqual(['found', 'found', 'found', 'found', 'found', 'inserted']);
  });
});
