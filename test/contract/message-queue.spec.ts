import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { encodeNotice, podName } from '#protocol';
import { ADAPTERS, hear, type Nouns, ownerOf, sessionOf, TIMES } from './coordinations.js';

const session = sessionOf(1);
const a1 = ownerOf('a', 1);
const b2 = ownerOf('b', 2);
const facts = { initiator: 'ann', parent: null };
const wake = encodeNotice({ type: 'wake', ...session });
const t = (number: number, generation = 1): { turnId: string; generation: number } => ({
  turnId: `t${number}`,
  generation,
});

describe.each(ADAPTERS)('the message queue in %s', (_, open) => {
  let nouns: Nouns;
  const enqueue = (number: number, generation = 1) => nouns.queue.enqueue(session, t(number, generation), facts);
  const take = () => nouns.queue.take(session, a1);
  const waiting = async () => (await nouns.queue.ready(10)).map((ready) => ready.session);

  beforeEach(async () => {
    nouns = await open();
    await nouns.mark(session, 'yes');
    await nouns.locks.acquire(session, a1);
  });
  afterEach(() => nouns.close());

  describe('enqueue', () => {
    it('puts turns in line in the order of the calls, each once', async () => {
      await enqueue(1);
      await enqueue(2);
      expect(await enqueue(1)).toEqual({ kind: 'queued', owner: a1 });
      expect(await nouns.queue.lists(session)).toEqual({ pending: [t(1), t(2)], processing: null });
    });

    it('leaves a turn that is being worked on where it is', async () => {
      await enqueue(1);
      await take();
      await enqueue(1);
      expect(await nouns.queue.lists(session)).toEqual({ pending: [], processing: t(1) });
    });

    it('records the turn as queued, with what operators want to see', async () => {
      await nouns.queue.enqueue(session, t(1), { initiator: 'ann', parent: 't0' });
      expect(await nouns.record(session, 't1')).toMatchObject({
        ...{ state: 'queued', generation: '1', session: session.sessionId, initiator: 'ann', parent: 't0' },
      });
      expect(await nouns.ttlMs(nouns.keys.turn(session, 't1'))).toBeGreaterThan(TIMES.turnRecordTtlMs - 5_000);
    });

    it('does nothing for a generation that has ended, or that a later one has followed', async () => {
      await nouns.records.advance(session, t(1), 'stopped');
      await nouns.records.advance(session, t(2, 2), 'queued');
      await nouns.records.advance(session, t(3, 2), 'completed');
      for (const number of [1, 2, 3]) expect(await enqueue(number)).toEqual({ kind: 'ended' });
      expect(await nouns.queue.lists(session)).toEqual({ pending: [], processing: null });
      expect(await waiting()).toEqual([]);
    });

    it('queues a retry of an ended turn, and a running turn that got lost', async () => {
      await nouns.records.advance(session, t(1), 'failed');
      await nouns.records.advance(session, t(2), 'running');
      expect(await enqueue(1, 2)).toMatchObject({ kind: 'queued' });
      expect(await enqueue(2)).toMatchObject({ kind: 'queued' });
      expect(await nouns.records.read(session, 't1')).toEqual({ generation: 2, state: 'queued' });
      expect(await nouns.records.read(session, 't2')).toEqual({ generation: 1, state: 'running' });
      expect((await nouns.queue.lists(session)).pending).toEqual([t(1, 2), t(2)]);
    });

    it('wakes the owner’s pod, or names none', async () => {
      const pod = await hear(nouns, nouns.keys.podChannel(podName(a1)));
      expect(await enqueue(1)).toEqual({ kind: 'queued', owner: a1 });
      expect(await pod.heard()).toEqual([wake]);
      await nouns.expireLock(session);
      expect(await enqueue(2)).toEqual({ kind: 'queued', owner: null });
      expect(await pod.heard()).toEqual([]);
    });

    it('works in a partition that was lost', async () => {
      await nouns.flush();
      expect(await enqueue(1)).toEqual({ kind: 'queued', owner: null });
      expect(await waiting()).toEqual([session]);
    });
  });

  describe('take', () => {
    it('answers the head of the line and then the same until it is completed', async () => {
      await enqueue(1);
      await enqueue(2);
      expect(await take()).toEqual({ kind: 'taken', ref: t(1) });
      expect(await take()).toEqual({ kind: 'taken', ref: t(1) });
      expect(await nouns.queue.lists(session)).toEqual({ pending: [t(2)], processing: t(1) });
    });

    it('hands what the last owner was at to the next one', async () => {
      await enqueue(1);
      await take();
      await nouns.expireLock(session);
      await nouns.locks.acquire(session, b2);
      expect(await nouns.queue.take(session, b2)).toEqual({ kind: 'taken', ref: t(1) });
    });

    it('takes the session from the index when nothing waits', async () => {
      await enqueue(1);
      await take();
      await nouns.queue.complete(session, a1, t(1), null);
      expect(await take()).toEqual({ kind: 'empty' });
      expect(await waiting()).toEqual([]);
    });
  });

  describe('complete', () => {
    it('removes the turn from both lists, records its end and takes the next one', async () => {
      await enqueue(1);
      await enqueue(2);
      await take();
      for (const _ of ['first', 'again']) {
        expect(await nouns.queue.complete(session, a1, t(1), 'failed')).toEqual({ kind: 'taken', ref: t(2) });
        expect(await nouns.queue.lists(session)).toEqual({ pending: [], processing: t(2) });
      }
      expect(await nouns.queue.complete(session, a1, t(2), 'stopped')).toEqual({ kind: 'empty' });
      expect(await nouns.queue.lists(session)).toEqual({ pending: [], processing: null });
      expect(await waiting()).toEqual([]);
      expect(await nouns.records.read(session, 't1')).toEqual({ generation: 1, state: 'failed' });
      expect(await nouns.records.read(session, 't2')).toEqual({ generation: 1, state: 'stopped' });
    });

    it('leaves the record of an envelope that is dropped, and of a turn that has ended otherwise', async () => {
      await enqueue(1);
      await nouns.queue.complete(session, a1, t(1), null);
      expect(await nouns.records.read(session, 't1')).toEqual({ generation: 1, state: 'queued' });
      await nouns.records.advance(session, t(1), 'stopped');
      await nouns.queue.complete(session, a1, t(1), 'completed');
      expect(await nouns.records.read(session, 't1')).toEqual({ generation: 1, state: 'stopped' });
    });

    it('keeps the session indexed while more waits', async () => {
      await enqueue(1);
      await enqueue(2);
      await take();
      await nouns.queue.complete(session, a1, t(1), 'completed');
      expect(await waiting()).toEqual([session]);
    });

    it('removes a turn that is not the one under way, and answers that one', async () => {
      for (const number of [1, 2, 3]) await enqueue(number);
      await take();
      expect(await nouns.queue.complete(session, a1, t(2), 'stopped')).toEqual({ kind: 'taken', ref: t(1) });
      expect(await nouns.queue.lists(session)).toEqual({ pending: [t(3)], processing: t(1) });
    });
  });

  describe('restore', () => {
    it('puts the ledger’s order in front, keeps the rest behind, and empties processing', async () => {
      for (const number of [9, 2, 8, 1]) await enqueue(number);
      await take();
      expect(await nouns.queue.restore(session, a1, [t(1), t(2), t(3)])).toBe('restored');
      expect(await nouns.queue.lists(session)).toEqual({
        pending: [t(1), t(2), t(3), t(9), t(8)],
        processing: null,
      });
      expect(await nouns.queue.restore(session, a1, [t(1), t(2), t(3)])).toBe('restored');
      expect((await nouns.queue.lists(session)).pending).toEqual([t(1), t(2), t(3), t(9), t(8)]);
    });

    it('is allowed to the filler while its mark stands, and to no other', async () => {
      expect(await nouns.queue.restore(session, { nonce: 'n1' }, [t(1)])).toBe('not_allowed');
      await nouns.mark(session, 'filling:n1');
      expect(await nouns.queue.restore(session, { nonce: 'n2' }, [t(1)])).toBe('not_allowed');
      expect(await nouns.queue.restore(session, { nonce: '' }, [t(1)])).toBe('not_allowed');
      expect(await nouns.queue.restore(session, { nonce: 'n1' }, [t(1)])).toBe('restored');
      await nouns.mark(session, null);
      expect(await nouns.queue.restore(session, { nonce: 'n1' }, [t(2)])).toBe('not_allowed');
      expect((await nouns.queue.lists(session)).pending).toEqual([t(1)]);
    });

    it('wakes the owner, or else all pods, and nobody for an empty line', async () => {
      const pod = await hear(nouns, nouns.keys.podChannel(podName(a1)));
      const pods = await hear(nouns, nouns.keys.podsChannel());
      await nouns.queue.restore(session, a1, []);
      expect(await waiting()).toEqual([]);
      await nouns.queue.restore(session, a1, [t(1)]);
      expect([await pod.heard(), await pods.heard()]).toEqual([[wake], []]);
      await nouns.flush();
      await nouns.mark(session, 'filling:n1');
      await nouns.queue.restore(session, { nonce: 'n1' }, [t(1)]);
      expect([await pod.heard(), await pods.heard()]).toEqual([[], [wake]]);
      expect(await waiting()).toEqual([session]);
    });

    it('takes a long line', async () => {
      const refs = Array.from({ length: 5_000 }, (_, nth) => t(nth));
      expect(await nouns.queue.restore(session, a1, refs)).toBe('restored');
      expect((await nouns.queue.lists(session)).pending).toEqual(refs);
    });
  });

  it('touches nothing for anybody but the owner', async () => {
    await enqueue(1);
    await take();
    await enqueue(2);
    const before = [await nouns.queue.lists(session), await nouns.record(session, 't1')];
    for (const other of [b2, ownerOf('a', 2), { ...a1, boot: 'b2' }]) {
      expect(await nouns.queue.take(session, other)).toEqual({ kind: 'not_owner' });
      expect(await nouns.queue.complete(session, other, t(1), 'completed')).toEqual({ kind: 'not_owner' });
      expect(await nouns.queue.restore(session, other, [t(2)])).toBe('not_allowed');
    }
    expect([await nouns.queue.lists(session), await nouns.record(session, 't1')]).toEqual(before);
  });

  it('sets the lock of a calling owner again when the partition was lost', async () => {
    const calls = [
      () => nouns.queue.take(session, a1),
      () => nouns.queue.complete(session, a1, t(1), null),
      () => nouns.queue.restore(session, a1, []),
    ];
    for (const call of calls) {
      await nouns.flush();
      await call();
      expect(await nouns.locks.owners([session])).toEqual([a1]);
      expect(await nouns.ttlMs(nouns.keys.lock(session))).toBeGreaterThan(TIMES.leaseTtlMs - 5_000);
    }
  });

  it('tells of many turns whether they stand in either list', async () => {
    const other = sessionOf(2);
    await enqueue(1);
    await take();
    await enqueue(2);
    await nouns.queue.enqueue(other, t(3), facts);
    const asked = [
      { session, ref: t(1) },
      { session: other, ref: t(1) },
      { session, ref: t(2) },
      { session: other, ref: t(3) },
      { session, ref: t(2, 2) },
    ];
    expect(await nouns.queue.present(asked)).toEqual([true, false, true, true, false]);
    expect(await nouns.queue.present([])).toEqual([]);
  });

  it('lists the longest waiting first: a session whose line gets on goes to the back', async () => {
    const crowd = [session, sessionOf(2, session), sessionOf(3, session)];
    for (const waits of crowd) {
      await nouns.queue.enqueue(waits, t(1), facts);
      await nouns.pass();
    }
    await nouns.queue.enqueue(session, t(2), facts);
    expect(await waiting()).toEqual(crowd);
    await take();
    expect(await waiting()).toEqual([crowd[1], crowd[2], session]);
  });

  it('lists waiting sessions of all partitions, so many of each', async () => {
    const crowd = [session, sessionOf(2, session), sessionOf(3, session)];
    const elsewhere = sessionOf(4);
    for (const [nth, waits] of [...crowd, elsewhere].entries()) await nouns.queue.enqueue(waits, t(nth), facts);
    expect(await nouns.queue.ready(2)).toHaveLength(3);
    expect(await nouns.queue.ready(10)).toHaveLength(4);
    expect((await nouns.queue.ready(10))[0]?.sinceMs).toBeGreaterThan(Date.UTC(2020));
  });
});
