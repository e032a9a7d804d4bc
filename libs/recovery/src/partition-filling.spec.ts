import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { KeyNames, PARTITIONS, partitionOf, type SessionKey } from '#protocol';
import { memoryCoordination, MemoryStore, SystemRandomness } from '#platform';
import { FILL_MARK_TTL_MS, MemoryMessageQueue, MemoryPartitionMarks, WaitingWork } from '#message-queue';
import { TurnStage } from '#test-kit';
import { PartitionFilling } from './partition-filling.js';
import type { Reconciler } from './reconciler.js';
import { Recovery } from './recovery.js';

/** The turns of one page, and the sessions whose turns come in it and the next. */
const PAGE = 1_000;
const TURNS_EACH = 100;
const TIMES = { leaseTtlMs: 30_000, turnRecordTtlMs: 1_000_000 };
const ALL = Array.from({ length: PARTITIONS }, (_, partition) => partition);

class Offers extends WaitingWork {
  readonly sessions: SessionKey[] = [];

  override offer(session: SessionKey): void {
    this.sessions.push(session);
  }
}

describe('filling what was lost', () => {
  let stage: TurnStage;
  let queue: MemoryMessageQueue;
  let marks: MemoryPartitionMarks;
  let store: MemoryStore;
  let offers: Offers;

  beforeEach(async () => {
    stage = await TurnStage.open();
    store = new MemoryStore(stage.clock);
    const keys = new KeyNames('t:');
    queue = new MemoryMessageQueue(store, keys, TIMES, stage.clock);
    marks = new MemoryPartitionMarks(store, keys);
    offers = new Offers();
  });
  afterEach(() => stage.close());

  const filling = (refillWaitMs = 1_000): PartitionFilling => {
    const { channels } = memoryCoordination('t:', stage.clock, store);
    return new PartitionFilling(
      ...([{ refillWaitMs, embedded: false }, new KeyNames('t:'), stage.clock, new SystemRandomness()] as const),
      ...([stage.steps, channels, stage.turns, queue, marks, offers] as const),
    );
  };
  /** Sessions of the partitions that are filled together, with turns in line. */
  const waiting = async (count: number): Promise<SessionKey[]> => {
    const sessions: SessionKey[] = [];
    for (let at = 0; sessions.length < count; at++) {
      const session = { account: 'acc', sessionId: `s${at}` };
      if (partitionOf(session) < 32) sessions.push(session);
    }
    for (const session of sessions) {
      for (let nth = 0; nth < TURNS_EACH; nth++) await stage.accept(`${session.sessionId}.${nth}`, 'hi', { session });
    }
    return sessions;
  };
  const fill = async (of: PartitionFilling, withinMs: number): Promise<number[]> => {
    const filled = of.fillLost();
    await stage.clock.advance(withinMs);
    return filled;
  };

  it('restores thousands of turns, each session in order, and never holds more than a page and a session of them', async () => {
    const sessions = await waiting(31);
    let [held, most, pages] = [0, 0, 0];
    const [liveIn, restore] = [stage.turns.liveIn.bind(stage.turns), queue.restore.bind(queue)];
    jest.spyOn(stage.turns, 'liveIn').mockImplementation(async (...asked) => {
      const page = await liveIn(...asked);
      pages += page.length > 0 ? 1 : 0;
      most = Math.max(most, (held += page.length));
      return page;
    });
    jest.spyOn(queue, 'restore').mockImplementation(async (...asked) => {
      const answer = await restore(...asked);
      held -= asked[2].length;
      return answer;
    });
    expect(await fill(filling(), 2_000)).toEqual(ALL);
    for (const session of sessions) {
      const { pending, processing } = await queue.lists(session);
      const line = Array.from({ length: TURNS_EACH }, (_, nth) => `${session.sessionId}.${nth}`);
      expect([pending.map(({ turnId }) => turnId), processing]).toEqual([line, null]);
    }
    expect([held, pages, most <= PAGE + TURNS_EACH]).toEqual([0, 4, true]);
    expect(new Set(offers.sessions)).toEqual(new Set(sessions));
  });

  it('takes longer than a mark stands, where the ledger is slow, and gets through at once all the same', async () => {
    const sessions = await waiting(11);
    const liveIn = stage.turns.liveIn.bind(stage.turns);
    const asked = jest.spyOn(stage.turns, 'liveIn').mockImplementation(async (...args) => {
      await stage.clock.sleep(FILL_MARK_TTL_MS / 2);
      return liveIn(...args);
    });
    expect(await fill(filling(), 10 * FILL_MARK_TTL_MS)).toEqual(ALL);
    expect(asked.mock.calls.length).toBe(PARTITIONS / 32 + 1);
    for (const session of sessions) expect((await queue.lists(session)).pending).toHaveLength(TURNS_EACH);
  });

  it('waits longer for living owners than a mark stands, where it is told to', async () => {
    expect(await fill(filling(3 * FILL_MARK_TTL_MS), 3 * FILL_MARK_TTL_MS)).toEqual(ALL);
  });

  it('does not wait for a reconciler that is at it for long', async () => {
    const busy = Promise.withResolvers<void>();
    const reconciler = { reconcile: jest.fn((_: readonly number[]) => busy.promise) };
    const recovery = new Recovery(
      ...([{ sweepIntervalMs: 5_000 }, stage.clock, filling(), reconciler as unknown as Reconciler] as const),
    );
    void recovery.start();
    await stage.clock.advance(2_000);
    expect(reconciler.reconcile.mock.calls).toEqual([[ALL]]);
    store.clear();
    await stage.clock.advance(7_000);
    expect(new Set(await marks.states())).toEqual(new Set(['intact']));
    expect(reconciler.reconcile).toHaveBeenCalledTimes(1);
    busy.resolve();
    await recovery.stop();
  });

  it('starts over where everything was lost again meanwhile', async () => {
    const [session] = await waiting(1);
    const lost = filling().fillLost();
    await stage.clock.advance(500);
    store.clear();
    await stage.clock.advance(2_000);
    expect(await lost).toEqual([]);
    expect((await queue.lists(session!)).pending).toEqual([]);
    expect(await fill(filling(), 2_000)).toEqual(ALL);
    expect((await queue.lists(session!)).pending).toHaveLength(TURNS_EACH);
  });
});
