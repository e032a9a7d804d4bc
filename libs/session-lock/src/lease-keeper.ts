import { Logger } from '@nestjs/common';
import { type Owner, partitionOf, type PodName, type SessionKey, sessionName, StaleOwnerError } from '#protocol';
import { type Clock, type Timer, UnavailableError } from '#platform';
import { batchesByPartition } from './batches.js';
import { Certainty } from './certainty.js';
import { Lease } from './lease.js';
import type { AcquireAnswer, ReleaseAnswer, ReleaseManner, SessionLocks } from './session-locks.js';

/** The part of the TTL by which a holder stops trusting its lease before Redis lets it go. */
const MARGIN_FRACTION = 0.1;

export interface LeaseTimes {
  leaseTtlMs: number;
  leaseRenewMs: number;
}
export type LeaseAnswer = { kind: 'acquired'; lease: Lease } | Exclude<AcquireAnswer, { kind: 'acquired' }>;

/**
 * Keeps all leases of this pod: acquires, renews in batches by partition, notices when one is lost, gives back.
 *
 * Owns: which leases this process holds, their renewal and their local deadlines (two timers in all, none without
 * leases). Does not own: what is done under a lease, or the lock itself. At most one lease per session, so two callers
 * in one pod never both hold its one token (I1). Trust counts from when the renewal was sent; a renewal that fails or
 * hangs changes nothing, so trust simply runs out; once it has, no late answer brings it back (I4).
 */
export class LeaseKeeper {
  private readonly logger = new Logger(LeaseKeeper.name);
  private readonly leases = new Map<string, Lease>();
  private readonly acquiring = new Map<string, Owner>();
  /** Being given back while idle: not renewed, and an earlier renewal's refusal is no loss. */
  private readonly releasing = new Set<Lease>();
  private readonly lostListeners: ((lease: Lease, cause: Error) => void)[] = [];
  /** Why the last renewal got no answer; null when it got one. */
  private unanswered: UnavailableError | null = null;
  private renewTimer: Timer | null = null;
  private deadlineTimer: Timer | null = null;
  private deadlineTimerAtMs = Infinity;
  private underWay: Promise<unknown> = Promise.resolve();
  private next: { partitions: Set<number> | 'all'; answered: Promise<boolean> } | null = null;
  private running = true;
  private readonly certainty = new Certainty();
  /** Others can hear that this pod lives. */
  private heard = true;

  constructor(
    private readonly pod: PodName,
    private readonly locks: SessionLocks,
    private readonly clock: Clock,
    private readonly times: LeaseTimes,
  ) {}

  /** How many leases this pod holds. */
  get size(): number {
    return this.leases.size;
  }

  /**
   * Told once for each lease that is lost. The cause is a `StaleOwnerError` when a renewal was refused or this process
   * was too late itself, an `UnavailableError` when renewals got no answer until the local deadline had passed.
   */
  onLost(listener: (lease: Lease, cause: Error) => void): void {
    this.lostListeners.push(listener);
  }

  /**
   * Takes the lease of a session for this pod. A session whose lease this pod holds, or is about to, counts as held.
   * @param ledgerEpoch the epoch in the ledger, as just read
   * @throws UnavailableError; the lock may be set then: ask again, or leave it to run out
   */
  async acquire(session: SessionKey, ledgerEpoch: number): Promise<LeaseAnswer> {
    const name = sessionName(session);
    const present = this.leases.get(name)?.owner ?? this.acquiring.get(name);
    if (present) return { kind: 'held', owner: present };
    const owner: Owner = { podId: this.pod.podId, boot: this.pod.boot, epoch: ledgerEpoch + 1 };
    this.acquiring.set(name, owner);
    try {
      const sentAtMs = this.clock.monotonicMs();
      const answer = await this.locks.acquire(session, owner);
      if (answer.kind !== 'acquired') return answer;
      const lease = new Lease(session, owner, this.clock, this.deadlineMs(sentAtMs), this.certainty);
      this.leases.set(name, lease);
      this.armRenewal();
      this.armDeadline(lease.deadlineMs);
      return { kind: 'acquired', lease };
    } finally {
      this.acquiring.delete(name);
    }
  }

  /**
   * Renews all leases, or those of some partitions, now. However often it is asked while a renewal is under way, one more
   * follows it, sent after they asked. Whether all of it was answered; never rejects.
   */
  renewNow(partitions?: readonly number[]): Promise<boolean> {
    const wanted: Set<number> | 'all' = partitions ? new Set(partitions) : 'all';
    if (this.next) {
      const { partitions: already } = this.next;
      this.next.partitions = already === 'all' || wanted === 'all' ? 'all' : new Set([...already, ...wanted]);
    } else {
      const answered = this.underWay.then(() => {
        const asked = this.next?.partitions ?? 'all';
        this.next = null;
        return this.renew(asked);
      });
      this.next = { partitions: wanted, answered };
      this.underWay = answered;
    }
    return this.next.answered;
  }

  /** This pod has lost its subscriptions: others may take it for dead. In doubt until a renewal after `subscribed`. */
  unsubscribed(): void {
    this.heard = false;
    this.certainty.doubt();
  }

  /** This pod can be heard again: a renewal tells what has become of its leases. */
  async subscribed(): Promise<void> {
    this.heard = true;
    await this.renewNow();
  }

  /**
   * Gives a lease back. A lost one too: the lock may still carry its token. With `leave` and `back_off` this pod forgets
   * it whatever comes of the call; with `idle` it is kept on `work` and when the call fails.
   * @throws UnavailableError; the lock runs out by itself
   */
  async release(lease: Lease, manner: ReleaseManner): Promise<ReleaseAnswer> {
    // Only a trusted lease can be kept.
    if (manner === 'idle' && lease.trusted && this.keeps(lease)) return this.releaseIdle(lease);
    this.forget(lease);
    return this.locks.release(lease.session, lease.owner, manner === 'idle' ? 'leave' : manner);
  }

  /** No more timers. Leases that are left run out by themselves. */
  stop(): void {
    this.running = false;
    this.renewTimer?.cancel();
    this.deadlineTimer?.cancel();
  }

  private async releaseIdle(lease: Lease): Promise<ReleaseAnswer> {
    this.releasing.add(lease);
    try {
      const answer = await this.locks.release(lease.session, lease.owner, 'idle');
      if (answer !== 'work') this.forget(lease);
      return answer;
    } finally {
      this.releasing.delete(lease);
    }
  }

  private async renew(partitions: Set<number> | 'all'): Promise<boolean> {
    const due = [...this.leases.values()].filter(
      (lease) =>
        lease.trusted &&
        !this.releasing.has(lease) &&
        (partitions === 'all' || partitions.has(partitionOf(lease.session))),
    );
    const mayVouch = this.heard && partitions === 'all';
    const batches = batchesByPartition(due);
    const answered = (await Promise.all(batches.map((batch) => this.renewBatch(batch)))).every(Boolean);
    if (!answered) this.certainty.doubt();
    else if (mayVouch && this.heard) this.certainty.settle();
    return answered;
  }

  private async renewBatch(batch: readonly Lease[]): Promise<boolean> {
    const sentAtMs = this.clock.monotonicMs();
    let still: boolean[];
    try {
      still = await this.locks.renew(batch);
      this.unanswered = null;
    } catch (error) {
      if (error instanceof UnavailableError) this.unanswered = error;
      this.logger.warn({ leases: batch.length, error: String(error) }, 'a renewal was not answered');
      return false;
    }
    batch.forEach((lease, at) => {
      if (this.releasing.has(lease)) return;
      if (still[at] && lease.trusted) lease.extend(Math.max(lease.deadlineMs, this.deadlineMs(sentAtMs)));
      else this.lose(lease, new StaleOwnerError('the renewal of the lease was refused, or came too late'));
    });
    return true;
  }

  private lose(lease: Lease, cause: Error): void {
    if (!this.keeps(lease)) return;
    this.forget(lease);
    lease.lose();
    for (const listener of this.lostListeners) listener(lease, cause);
  }

  private keeps(lease: Lease): boolean {
    return this.leases.get(sessionName(lease.session)) === lease;
  }

  private forget(lease: Lease): void {
    if (!this.keeps(lease)) return;
    this.leases.delete(sessionName(lease.session));
    if (this.leases.size > 0) return;
    this.renewTimer?.cancel();
    this.deadlineTimer?.cancel();
    this.renewTimer = this.deadlineTimer = null;
    this.deadlineTimerAtMs = Infinity;
  }

  private deadlineMs(sentAtMs: number): number {
    return sentAtMs + this.times.leaseTtlMs * (1 - MARGIN_FRACTION);
  }

  private armRenewal(): void {
    if (!this.running || this.renewTimer || this.leases.size === 0) return;
    this.renewTimer = this.clock.after(this.times.leaseRenewMs, () => {
      this.renewTimer = null;
      this.armRenewal();
      void this.renewNow();
    });
  }

  /** Renewals push deadlines out without touching the timer: when it fires, it looks for the nearest that is left. */
  private armDeadline(atMs: number): void {
    if (!this.running || atMs >= this.deadlineTimerAtMs) return;
    this.deadlineTimer?.cancel();
    this.deadlineTimerAtMs = atMs;
    const waitMs = Math.max(0, Math.ceil(atMs - this.clock.monotonicMs()));
    this.deadlineTimer = this.clock.after(waitMs, () => {
      this.deadlineTimer = null;
      this.deadlineTimerAtMs = Infinity;
      const cause = this.unanswered ?? new StaleOwnerError('the lease was not renewed in time');
      for (const lease of [...this.leases.values()]) if (!lease.trusted) this.lose(lease, cause);
      let nearestMs = Infinity;
      for (const lease of this.leases.values()) nearestMs = Math.min(nearestMs, lease.deadlineMs);
      this.armDeadline(nearestMs);
    });
  }
}
