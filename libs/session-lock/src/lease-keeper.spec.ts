import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { type Owner, partitionOf, type SessionKey, sessionName } from '#protocol';
import { UnavailableError } from '#platform';
import { ManualClock } from '#test-kit';
import type { Lease } from './lease.js';
import { LeaseKeeper } from './lease-keeper.js';
import {
  type AcquireAnswer,
  type Hold,
  type ReleaseAnswer,
  type ReleaseManner,
  SessionLocks,
} from './session-locks.js';

/** Locks whose every answer is held back until the test gives it. */
class HeldLocks extends SessionLocks {
  readonly renewals: { holds: readonly Hold[]; answer(still: boolean): void; fail(): void }[] = [];
  readonly releases: { manner: ReleaseManner; answer(answer: ReleaseAnswer): void; fail(): void }[] = [];
  acquireAnswer: Promise<AcquireAnswer> = Promise.resolve({ kind: 'acquired' });

  acquire(): Promise<AcquireAnswer> {
    return this.acquireAnswer;
  }

  renew(holds: readonly Hold[]): Promise<boolean[]> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean[]>();
    const answer = (still: boolean): void => resolve(holds.map(() => still));
    this.renewals.push({ holds, answer, fail: () => reject(new UnavailableError('redis', 'away')) });
    return promise;
  }

  release(_session: SessionKey, _owner: Owner, manner: ReleaseManner): Promise<ReleaseAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<ReleaseAnswer>();
    this.releases.push({ manner, answer: resolve, fail: () => reject(new UnavailableError('redis', 'away')) });
    return promise;
  }

  bury(): Promise<boolean> {
    return Promise.resolve(false);
  }

  owners(): Promise<(Owner | null)[]> {
    return Promise.resolve([]);
  }

  holder(): Promise<null> {
    return Promise.resolve(null);
  }
}

const TTL_MS = 30_000;
const RENEW_MS = 10_000;
const TRUST_MS = 27_000;
const pod = { podId: 'a', boot: 'b1' };
const session = { account: 'acme', sessionId: 's1' };
const other = { account: 'acme', sessionId: 's2' };

describe('the lease keeper', () => {
  let clock: ManualClock;
  let locks: HeldLocks;
  let keeper: LeaseKeeper;
  let lost: Lease[];

  beforeEach(() => {
    jest.spyOn(Logger.prototype, 'warn').mockReturnValue();
    clock = new ManualClock();
    locks = new HeldLocks();
    keeper = new LeaseKeeper(pod, locks, clock, { leaseTtlMs: TTL_MS, leaseRenewMs: RENEW_MS });
    lost = [];
    keeper.onLost((lease) => lost.push(lease));
  });
  afterEach(() => keeper.stop());

  async function acquired(of: SessionKey = session, ledgerEpoch = 4): Promise<Lease> {
    const answer = await keeper.acquire(of, ledgerEpoch);
    if (answer.kind !== 'acquired') throw new Error(answer.kind);
    return answer.lease;
  }

  const renewed = (): string[][] => locks.renewals.map(({ holds }) => holds.map((hold) => sessionName(hold.session)));

  it('acquires with the epoch after the ledger’s', async () => {
    expect((await acquired()).owner).toEqual({ ...pod, epoch: 5 });
  });

  it.each<AcquireAnswer>([{ kind: 'held', owner: { ...pod, epoch: 3 } }, { kind: 'not_intact' }])(
    'keeps nothing when the answer is %j',
    async (answer) => {
      locks.acquireAnswer = Promise.resolve(answer);
      expect(await keeper.acquire(session, 4)).toEqual(answer);
      expect([keeper.size, clock.pending]).toEqual([0, 0]);
    },
  );

  it('gives a session to one caller in this pod, also while the lock is being asked for', async () => {
    const calls = await Promise.all([keeper.acquire(session, 4), keeper.acquire(session, 4)]);
    expect(calls.map(({ kind }) => kind)).toEqual(['acquired', 'held']);
    expect(await keeper.acquire(session, 4)).toEqual({ kind: 'held', owner: { ...pod, epoch: 5 } });
  });

  it('may ask again after an acquire that failed', async () => {
    locks.acquireAnswer = Promise.reject(new UnavailableError('redis', 'away'));
    await expect(keeper.acquire(session, 4)).rejects.toThrow(UnavailableError);
    locks.acquireAnswer = Promise.resolve({ kind: 'acquired' });
    expect((await acquired()).trusted).toBe(true);
  });

  describe('certainty', () => {
    it('is lost with the subscriptions, and comes back with a renewal that was sent after they stood again', async () => {
      const lease = await acquired();
      expect(lease.certain).toBe(true);
      const before = keeper.renewNow();
      await clock.advance(0);
      keeper.unsubscribed();
      locks.renewals[0]!.answer(true);
      await before;
      expect(lease.certain).toBe(false);
      const back = lease.becomesCertain();
      void keeper.subscribed();
      await clock.advance(0);
      expect(lease.certain).toBe(false);
      locks.renewals[1]!.answer(true);
      await back;
      expect([lease.certain, lease.trusted]).toEqual([true, true]);
    });

    it('is lost when a renewal gets no answer, and comes back with the next one that does', async () => {
      const lease = await acquired();
      await clock.advance(RENEW_MS);
      locks.renewals[0]!.fail();
      await clock.advance(0);
      expect([lease.certain, lease.trusted]).toEqual([false, true]);
      await clock.advance(RENEW_MS);
      locks.renewals[1]!.answer(true);
      await lease.becomesCertain();
      expect(lease.certain).toBe(true);
    });
  });

  describe('trust', () => {
    it('counts from when the acquire was sent, not from its answer', async () => {
      const { promise, resolve } = Promise.withResolvers<AcquireAnswer>();
      locks.acquireAnswer = promise;
      const call = keeper.acquire(session, 4);
      await clock.advance(2_000);
      resolve({ kind: 'acquired' });
      const answer = await call;
      expect(answer.kind === 'acquired' && answer.lease.deadlineMs).toBe(TRUST_MS);
    });

    it('counts from when a renewal was sent, not from its answer', async () => {
      const lease = await acquired();
      await clock.advance(RENEW_MS + 3_000);
      locks.renewals[0]!.answer(true);
      await clock.advance(0);
      expect(lease.deadlineMs).toBe(RENEW_MS + TRUST_MS);
    });

    it('runs out when renewals fail, and that is told once', async () => {
      const lease = await acquired();
      await clock.advance(RENEW_MS);
      locks.renewals[0]!.fail();
      await clock.advance(RENEW_MS);
      locks.renewals[1]!.fail();
      await clock.advance(TRUST_MS - 2 * RENEW_MS - 1);
      expect([lease.trusted, lost]).toEqual([true, []]);
      await clock.advance(1);
      expect([lease.trusted, lost, keeper.size]).toEqual([false, [lease], 0]);
      await clock.advance(60_000);
      expect(lost).toHaveLength(1);
    });

    it('runs out when a renewal hangs', async () => {
      const lease = await acquired();
      await clock.advance(TRUST_MS);
      expect(locks.renewals).toHaveLength(1);
      expect(lost).toEqual([lease]);
      expect(() => lease.assertTrusted()).toThrow('not trusted');
    });

    it('that has run out is not brought back by a late answer', async () => {
      const lease = await acquired();
      await clock.advance(RENEW_MS);
      clock.stall(TRUST_MS - 1);
      locks.renewals[0]!.answer(true);
      await clock.advance(0);
      expect([lease.trusted, lost]).toEqual([false, [lease]]);
    });

    it('ends as soon as a renewal says that the lock is another’s', async () => {
      const lease = await acquired();
      await clock.advance(RENEW_MS);
      locks.renewals[0]!.answer(false);
      await clock.advance(0);
      expect([lease.trusted, lost, keeper.size]).toEqual([false, [lease], 0]);
    });

    it('of each lease ends at its own time, by one timer', async () => {
      const first = await acquired();
      await clock.advance(1_000);
      const second = await acquired(other);
      expect(clock.pending).toBe(2);
      await clock.advance(TRUST_MS - 1_000);
      expect(lost).toEqual([first]);
      await clock.advance(1_000);
      expect(lost).toEqual([first, second]);
    });

    it('lasts as long as renewals are answered', async () => {
      const lease = await acquired();
      for (let round = 0; round < 100; round++) {
        await clock.advance(RENEW_MS);
        locks.renewals.at(-1)!.answer(true);
      }
      await clock.advance(0);
      expect([lease.trusted, lost, locks.renewals.length, clock.pending]).toEqual([true, [], 100, 2]);
    });
  });

  describe('renewal', () => {
    it('is one call for all leases of a partition', async () => {
      const near = Array.from({ length: 10_000 }, (_, nth) => ({ account: 'acme', sessionId: `n${nth}` }))
        .filter((candidate) => partitionOf(candidate) === partitionOf(session))
        .slice(0, 3);
      for (const of of [session, ...near, other]) await acquired(of);
      await clock.advance(RENEW_MS);
      expect(renewed()).toEqual([[session, ...near].map(sessionName), [sessionName(other)]]);
    });

    it('asks for a bounded number of leases at a time', async () => {
      const many = Array.from({ length: 60_000 }, (_, nth) => ({ account: 'acme', sessionId: `m${nth}` }))
        .filter((candidate) => partitionOf(candidate) === partitionOf(session))
        .slice(0, 201);
      for (const one of many) await acquired(one);
      await clock.advance(RENEW_MS);
      expect(locks.renewals.map(({ holds }) => holds.length)).toEqual([200, 1]);
    });

    it('of one partition that fails leaves the others’ answers standing', async () => {
      const [first, second] = [await acquired(), await acquired(other)];
      await clock.advance(RENEW_MS);
      locks.renewals[0]!.fail();
      locks.renewals[1]!.answer(true);
      await clock.advance(0);
      expect([first.deadlineMs, second.deadlineMs]).toEqual([TRUST_MS, RENEW_MS + TRUST_MS]);
    });

    it('asked for often while one is under way follows once, sent after they asked', async () => {
      await acquired();
      const first = keeper.renewNow();
      await clock.advance(0);
      const others = [keeper.renewNow(), keeper.renewNow([partitionOf(session)]), keeper.renewNow()];
      await clock.advance(500);
      expect(locks.renewals).toHaveLength(1);
      locks.renewals[0]!.answer(true);
      await clock.advance(0);
      expect(locks.renewals).toHaveLength(2);
      locks.renewals[1]!.fail();
      expect(await Promise.all([first, ...others])).toEqual([true, false, false, false]);
      expect(locks.renewals).toHaveLength(2);
    });

    it('can be asked for some partitions', async () => {
      await acquired();
      await acquired(other);
      const asked = keeper.renewNow([partitionOf(other)]);
      await clock.advance(0);
      expect(renewed()).toEqual([[sessionName(other)]]);
      locks.renewals[0]!.answer(true);
      expect(await asked).toBe(true);
    });

    it('asked for by different callers covers all that they asked for', async () => {
      await acquired();
      await acquired(other);
      const calls = [keeper.renewNow([partitionOf(session)]), keeper.renewNow([partitionOf(other)])];
      await clock.advance(0);
      expect(renewed().flat()).toEqual([sessionName(session), sessionName(other)]);
      for (const renewal of locks.renewals) renewal.answer(true);
      expect(await Promise.all(calls)).toEqual([true, true]);
    });

    it('leaves out leases that are not trusted any more', async () => {
      await acquired();
      clock.stall(TRUST_MS);
      expect(await keeper.renewNow()).toBe(true);
      expect(locks.renewals).toHaveLength(0);
    });
  });

  describe('giving back', () => {
    it('forgets the lease when it was released or another’s', async () => {
      for (const answer of ['released', 'not_owner'] as const) {
        const lease = await acquired();
        const call = keeper.release(lease, 'idle');
        locks.releases.at(-1)!.answer(answer);
        expect([await call, keeper.size, clock.pending]).toEqual([answer, 0, 0]);
      }
      expect(lost).toEqual([]);
    });

    it('keeps the lease while work waits', async () => {
      const lease = await acquired();
      const call = keeper.release(lease, 'idle');
      locks.releases[0]!.answer('work');
      expect([await call, keeper.size, lease.trusted]).toEqual(['work', 1, true]);
    });

    it('keeps an idle lease when the call fails, and learns by the next renewal', async () => {
      const lease = await acquired();
      const call = keeper.release(lease, 'idle');
      locks.releases[0]!.fail();
      await expect(call).rejects.toThrow(UnavailableError);
      await clock.advance(RENEW_MS);
      locks.renewals[0]!.answer(false);
      await clock.advance(0);
      expect(lost).toEqual([lease]);
    });

    it.each(['leave', 'back_off'] as const)('forgets at once with %s, even when the call fails', async (manner) => {
      const lease = await acquired();
      const call = keeper.release(lease, manner);
      expect([keeper.size, clock.pending]).toEqual([0, 0]);
      locks.releases[0]!.fail();
      await expect(call).rejects.toThrow(UnavailableError);
      expect(lost).toEqual([]);
    });

    it('is not taken for a loss by a renewal that was under way', async () => {
      const lease = await acquired();
      await clock.advance(RENEW_MS);
      const call = keeper.release(lease, 'idle');
      locks.renewals[0]!.answer(false);
      await clock.advance(0);
      locks.releases[0]!.answer('released');
      expect([await call, lost, keeper.size]).toEqual(['released', [], 0]);
    });

    it('cannot keep a lease that is not trusted', async () => {
      const lease = await acquired();
      await clock.advance(TRUST_MS);
      void keeper.release(lease, 'idle');
      expect(locks.releases.map(({ manner }) => manner)).toEqual(['leave']);
    });
  });

  it('has no timer without leases, and none after it was stopped', async () => {
    expect(clock.pending).toBe(0);
    await acquired();
    expect(clock.pending).toBe(2);
    keeper.stop();
    expect(clock.pending).toBe(0);
    await acquired(other);
    expect(clock.pending).toBe(0);
  });
});
