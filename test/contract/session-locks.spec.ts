import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { encodeNotice, podName } from '#protocol';
import { batchesByPartition } from '#session-lock';
import { ADAPTERS, hear, type Nouns, ownerOf, sessionOf, TIMES } from './coordinations.js';

const session = sessionOf(1);
const a1 = ownerOf('a', 1);
const b1 = ownerOf('b', 1);
const b2 = ownerOf('b', 2);
const ref = { turnId: 't1', generation: 1 };
const facts = { initiator: 'ann', parent: null };
const wake = encodeNotice({ type: 'wake', ...session });

describe.each(ADAPTERS)('session locks in %s', (_, open) => {
  let nouns: Nouns;

  beforeEach(async () => {
    nouns = await open();
    await nouns.mark(session, 'yes');
  });
  afterEach(() => nouns.close());

  it('give a free session to whoever asks first, and name the owner to the next', async () => {
    expect(await nouns.locks.acquire(session, a1)).toEqual({ kind: 'acquired' });
    expect(await nouns.locks.acquire(session, b1)).toEqual({ kind: 'held', owner: a1 });
    expect(await nouns.locks.holder(session)).toEqual({ owner: a1, leaseRemainingMs: expect.any(Number) });
  });

  it('count the very same token as acquired, and no other of the same pod', async () => {
    await nouns.locks.acquire(session, a1);
    expect(await nouns.locks.acquire(session, a1)).toEqual({ kind: 'acquired' });
    expect(await nouns.locks.acquire(session, ownerOf('a', 2))).toEqual({ kind: 'held', owner: a1 });
    expect(await nouns.locks.acquire(session, { ...a1, boot: 'b2' })).toEqual({ kind: 'held', owner: a1 });
  });

  it('bury the lease of a pod that nobody hears, and of nobody else', async () => {
    await nouns.locks.acquire(session, a1);
    const leave = await nouns.channels.subscribe(nouns.keys.podChannel(podName(a1)), () => undefined);
    expect(await nouns.locks.bury(session, a1)).toBe(false);
    leave();
    await nouns.pass();
    expect(await nouns.locks.bury(session, { ...a1, epoch: 2 })).toBe(false);
    expect(await nouns.locks.bury(session, b1)).toBe(false);
    expect(await nouns.locks.holder(session)).toMatchObject({ owner: a1 });
    expect(await nouns.locks.bury(session, a1)).toBe(true);
    expect(await nouns.locks.holder(session)).toBeNull();
    expect(await nouns.locks.bury(session, a1)).toBe(true);
    expect(await nouns.locks.acquire(session, b1)).toEqual({ kind: 'acquired' });
  });

  it.each([[null], ['filling:n1']])('give nothing away while the partition is marked %s', async (mark) => {
    await nouns.locks.acquire(session, a1);
    await nouns.mark(session, mark);
    expect(await nouns.locks.acquire(session, a1)).toEqual({ kind: 'not_intact' });
    expect(await nouns.locks.acquire(session, b2)).toEqual({ kind: 'not_intact' });
  });

  it('last for the TTL', async () => {
    await nouns.locks.acquire(session, a1);
    const remainingMs = (await nouns.locks.holder(session))?.leaseRemainingMs ?? 0;
    expect(remainingMs).toBeGreaterThan(TIMES.leaseTtlMs - 5_000);
    expect(remainingMs).toBeLessThanOrEqual(TIMES.leaseTtlMs);
  });

  it('last for the TTL again when renewed, or acquired again by the same owner', async () => {
    const calls = [() => nouns.locks.renew([{ session, owner: a1 }]), () => nouns.locks.acquire(session, a1)];
    await nouns.locks.acquire(session, a1);
    for (const call of calls) {
      await nouns.age(nouns.keys.lock(session));
      await call();
      expect(await nouns.ttlMs(nouns.keys.lock(session))).toBeGreaterThan(TIMES.leaseTtlMs - 5_000);
    }
  });

  it('are renewed for many sessions at once, each answered by itself', async () => {
    const others = Array.from({ length: 450 }, (_, nth) => sessionOf(nth + 2));
    const crowd = Array.from({ length: 3 }, (_, nth) => sessionOf(1_000 + nth, session));
    const mine = [session, ...crowd, ...others];
    for (const held of mine) await nouns.mark(held, 'yes');
    await Promise.all(mine.map((held) => nouns.locks.acquire(held, a1)));
    await nouns.expireLock(crowd[1]!);
    await nouns.expireLock(others[7]!);
    await nouns.locks.acquire(others[7]!, b2);
    const lost = new Set([crowd[1], others[7]]);
    const batches = batchesByPartition(mine.map((held) => ({ session: held, owner: a1 })));
    const answers = await Promise.all(batches.map((batch) => nouns.locks.renew(batch)));
    expect(answers).toEqual(batches.map((batch) => batch.map((hold) => !lost.has(hold.session))));
    expect(await nouns.locks.owners([session, crowd[1]!, others[7]!])).toEqual([a1, null, b2]);
    expect(await nouns.locks.renew([])).toEqual([]);
  });

  it('are not set again by a renewal when they ran out', async () => {
    await nouns.locks.acquire(session, a1);
    await nouns.expireLock(session);
    expect(await nouns.locks.renew([{ session, owner: a1 }])).toEqual([false]);
    expect(await nouns.locks.holder(session)).toBeNull();
  });

  it('are set again by a renewal when the partition was lost, also over a lower epoch', async () => {
    await nouns.locks.acquire(session, a1);
    await nouns.flush();
    expect(await nouns.locks.renew([{ session, owner: a1 }])).toEqual([true]);
    expect(await nouns.locks.renew([{ session, owner: b1 }])).toEqual([false]);
    expect(await nouns.locks.renew([{ session, owner: b2 }])).toEqual([true]);
    expect(await nouns.locks.renew([{ session, owner: a1 }])).toEqual([false]);
    expect(await nouns.locks.owners([session])).toEqual([b2]);
    expect(await nouns.ttlMs(nouns.keys.lock(session))).toBeGreaterThan(TIMES.leaseTtlMs - 5_000);
  });

  it('compare epochs as numbers', async () => {
    await nouns.flush();
    await nouns.locks.renew([{ session, owner: ownerOf('a', 9) }]);
    expect(await nouns.locks.renew([{ session, owner: ownerOf('b', 10) }])).toEqual([true]);
  });

  describe('when given back', () => {
    it('are free at once, and a second time are nobody’s', async () => {
      await nouns.locks.acquire(session, a1);
      expect(await nouns.locks.release(session, a1, 'idle')).toBe('released');
      expect(await nouns.locks.release(session, a1, 'idle')).toBe('not_owner');
      expect(await nouns.locks.acquire(session, b1)).toEqual({ kind: 'acquired' });
    });

    it('touch nothing of another owner', async () => {
      await nouns.locks.acquire(session, b2);
      for (const manner of ['idle', 'leave', 'back_off'] as const) {
        expect(await nouns.locks.release(session, a1, manner)).toBe('not_owner');
      }
      expect(await nouns.locks.owners([session])).toEqual([b2]);
    });

    it('are kept by an idle owner while something waits or is being worked on', async () => {
      await nouns.locks.acquire(session, a1);
      await nouns.queue.enqueue(session, ref, facts);
      expect(await nouns.locks.release(session, a1, 'idle')).toBe('work');
      await nouns.queue.take(session, a1);
      expect(await nouns.locks.release(session, a1, 'idle')).toBe('work');
      expect(await nouns.locks.owners([session])).toEqual([a1]);
    });

    it('tell all pods when work is left behind, and say nothing when backing off or when there is none', async () => {
      const pods = await hear(nouns, nouns.keys.podsChannel());
      await nouns.locks.acquire(session, a1);
      await nouns.locks.release(session, a1, 'leave');
      expect(await pods.heard()).toEqual([]);
      await nouns.queue.enqueue(session, ref, facts);
      await nouns.locks.acquire(session, a1);
      await nouns.locks.release(session, a1, 'back_off');
      expect(await pods.heard()).toEqual([]);
      await nouns.locks.acquire(session, a1);
      expect(await nouns.locks.release(session, a1, 'leave')).toBe('released');
      expect(await pods.heard()).toEqual([wake]);
    });

    it('work for an owner whose lock was lost with the partition', async () => {
      await nouns.locks.acquire(session, a1);
      await nouns.flush();
      expect(await nouns.locks.release(session, a1, 'leave')).toBe('released');
      expect(await nouns.locks.holder(session)).toBeNull();
    });
  });

  it('of two accounts with the same session id are two', async () => {
    const other = { ...session, account: 'ACME' };
    await nouns.mark(other, 'yes');
    await nouns.locks.acquire(session, a1);
    expect(await nouns.locks.acquire(other, b1)).toEqual({ kind: 'acquired' });
  });
});
