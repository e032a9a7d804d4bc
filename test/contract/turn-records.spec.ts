import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { encodeNotice, podName, TURN_STATES, turnRank } from '#protocol';
import { ADAPTERS, hear, type Nouns, ownerOf, sessionOf, TIMES } from './coordinations.js';

const session = sessionOf(1);
const a1 = ownerOf('a', 1);
const ref = { turnId: 't1', generation: 1 };

describe.each(ADAPTERS)('turn records in %s', (_, open) => {
  let nouns: Nouns;

  beforeEach(async () => {
    nouns = await open();
    await nouns.mark(session, 'yes');
  });
  afterEach(() => nouns.close());

  it('are unknown until something is recorded', async () => {
    expect(await nouns.records.read(session, 't1')).toBeNull();
  });

  it('only grow, by generation and then by state', async () => {
    const facts = TURN_STATES.flatMap((state) => [1, 2, 3].map((generation) => ({ state, generation })));
    for (const first of facts) {
      for (const second of facts) {
        await nouns.flush();
        expect(await nouns.records.advance(session, { turnId: 't1', generation: first.generation }, first.state)).toBe(
          true,
        );
        const news = turnRank(second.generation, second.state) > turnRank(first.generation, first.state);
        const answer = nouns.records.advance(session, { turnId: 't1', generation: second.generation }, second.state);
        expect(await answer).toBe(news);
        expect(await nouns.records.read(session, 't1')).toEqual(news ? second : first);
      }
    }
  });

  it('order generations of more digits as numbers', async () => {
    await nouns.records.advance(session, { turnId: 't1', generation: 9 }, 'completed');
    expect(await nouns.records.advance(session, { turnId: 't1', generation: 10 }, 'queued')).toBe(true);
  });

  it('last for their TTL, counted from the last news', async () => {
    for (const state of ['running', 'stopped'] as const) {
      await nouns.records.advance(session, ref, state);
      expect(await nouns.ttlMs(nouns.keys.turn(session, 't1'))).toBeGreaterThan(TIMES.turnRecordTtlMs - 5_000);
      await nouns.age(nouns.keys.turn(session, 't1'));
    }
    await nouns.records.advance(session, ref, 'running');
    expect(await nouns.ttlMs(nouns.keys.turn(session, 't1'))).toBeLessThanOrEqual(1_000);
    expect(await nouns.record(session, 't1')).toMatchObject({ session: session.sessionId });
  });

  it('tell the owner’s pod of a stop, again when asked again, and of nothing else', async () => {
    const stop = encodeNotice({ type: 'stop', ...session, ...ref });
    const pod = await hear(nouns, nouns.keys.podChannel(podName(a1)));
    await nouns.records.advance(session, ref, 'queued');
    await nouns.records.advance(session, ref, 'stop_requested');
    expect(await pod.heard()).toEqual([]);
    await nouns.locks.acquire(session, a1);
    await nouns.records.advance(session, ref, 'running');
    expect(await pod.heard()).toEqual([]);
    await nouns.records.advance(session, ref, 'stop_requested');
    expect(await pod.heard()).toEqual([stop]);
    await nouns.records.advance(session, ref, 'stopped');
    expect(await pod.heard()).toEqual([stop]);
    await nouns.records.advance(session, ref, 'stop_requested');
    await nouns.records.advance(session, ref, 'completed');
    expect(await pod.heard()).toEqual([]);
  });
});
