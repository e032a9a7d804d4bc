import { Logger } from '@nestjs/common';
import { type Owner, partitionOf, podName, type Ref, type RunOutcome, type SessionKey } from '#protocol';
import { type Clock, type PresumedDead, type StepPoints, UnavailableError } from '#platform';
import type { EventLedger } from '#event-ledger';
import type { MessageQueue, TakeAnswer } from '#message-queue';
import type { Lease, LeaseKeeper, ReleaseAnswer, ReleaseManner, SessionLocks } from '#session-lock';
import type { Place, Way } from './rooms.js';
import type { PartitionFiller, TurnHandler } from './turn-handler.js';

/** What all actors of a pod share. */
export interface ActorDeps {
  keeper: LeaseKeeper;
  locks: SessionLocks;
  dead: PresumedDead;
  ledger: EventLedger;
  queue: MessageQueue;
  handler: TurnHandler;
  filler: PartitionFiller;
  clock: Clock;
  steps: StepPoints;
}

/** What an actor tells its supervisor. */
export interface ActorHost {
  /**
   * It is over. `woken`: somebody said meanwhile that work waits, and nobody has looked since. `setBack`: it failed, and
   * whoever tries again at once would fail again.
   */
  gone(actor: Actor, told: { woken: boolean; setBack: boolean }): void;
}

/** What an owner is answered who takes. */
type Next = Exclude<TakeAnswer, { kind: 'not_owner' }>;

/** How often a lease is asked for when its partition had to be filled first. */
const ACQUIRE_ATTEMPTS = 3;
const OUTAGE_PAUSE_MS = 250;

/**
 * The butler of one session: acquires the lease, takes one turn after the other, sleeps, leaves.
 *
 * Owns: the session's lease and the way of its envelopes from pending to done. Does not own: what a turn does (the
 * handler), whether there is room (the supervisor). One `work` runs at a time; whoever wakes it meanwhile is remembered.
 * While it sleeps it is nothing but this object: no timer, no promise, no connection (I11). Keeps I1 and I2: it touches
 * lists only by calls that compare its token, and nothing after its lease is lost.
 */
export class Actor {
  private readonly logger = new Logger(Actor.name);
  private lease: Lease | null = null;
  private phase: 'working' | 'asleep' | 'gone' = 'working';
  private wokenAgain = false;
  private leaving = false;
  private setBack = false;
  private turn: AbortController | null = null;
  /** Since when it sleeps, on the monotonic clock. */
  private asleepSinceMs = 0;

  constructor(
    readonly session: SessionKey,
    private readonly deps: ActorDeps,
    private readonly host: ActorHost,
    private readonly place: Place,
  ) {}

  get asleep(): boolean {
    return this.phase === 'asleep';
  }

  holds(lease: Lease): boolean {
    return this.lease === lease;
  }

  /**
   * Becomes the session's owner if nobody is, and works until the line is empty. The host has given it room.
   * @param ownerEpoch the ledger's epoch, where it has just been read
   */
  async start(ownerEpoch?: number): Promise<void> {
    try {
      this.lease = await this.acquire(ownerEpoch);
    } catch (error) {
      this.setBack = true;
      this.note('could not acquire', error);
    }
    if (this.lease) await this.work(this.lease);
    else this.end();
  }

  /** Something may wait in line. @param way how that is known */
  wake(way: Way = 'named'): void {
    if (this.phase === 'working') {
      this.wokenAgain = true;
      this.deps.handler.woken(this.session);
    } else if (this.phase === 'asleep' && this.lease) {
      if (this.place.take(way)) void this.work(this.lease);
      else void this.leave(this.lease, 'leave');
    }
  }

  /** Goes off duty if it has slept for `idleMs`; the lease is given back unless work waits. */
  expire(idleMs: number): void {
    if (this.phase !== 'asleep' || !this.lease) return;
    if (this.deps.clock.monotonicMs() - this.asleepSinceMs < idleMs) return;
    this.phase = 'working';
    void this.goOffDuty(this.lease);
  }

  /** Leaves as soon as its turn yields; at once when asleep. */
  depart(): void {
    this.leaving = true;
    // A turn that waits for its children looks up, sees the drain, and leaves.
    this.deps.handler.woken(this.session);
    if (this.phase === 'asleep' && this.lease) void this.leave(this.lease, 'leave');
  }

  /** Ends the turn under way without waiting for a balanced point; it goes on under the next owner. */
  abort(reason: Error): void {
    this.turn?.abort(reason);
  }

  /** The lease is gone, or not trusted any more. */
  leaseLost(cause: Error): void {
    this.abort(cause);
    if (this.phase === 'asleep' && this.lease) void this.leave(this.lease, 'back_off');
  }

  private async acquire(ownerEpoch?: number): Promise<Lease | null> {
    for (let attempt = 1; attempt <= ACQUIRE_ATTEMPTS; attempt++) {
      const known = attempt === 1 ? ownerEpoch : undefined;
      const epoch = known ?? (await this.deps.ledger.ownerEpoch(this.session));
      await this.deps.steps.reach('actor.acquiring', { session: this.session });
      const answer = await this.deps.keeper.acquire(this.session, epoch);
      if (answer.kind === 'acquired') return answer.lease;
      if (answer.kind === 'held') {
        if (await this.bury(answer.owner)) continue;
        return null;
      }
      await this.deps.filler.ensureIntact(partitionOf(this.session));
    }
    return null;
  }

  /** Removes the lease of a pod that is taken for dead; whether the session is free. */
  private async bury(owner: Owner): Promise<boolean> {
    if (!this.deps.dead.has(podName(owner))) return false;
    await this.deps.steps.reach('actor.burying', { session: this.session });
    const isFree = await this.deps.locks.bury(this.session, owner);
    this.setBack ||= !isFree;
    return isFree;
  }

  /** Runs what is in line until it is empty, then sleeps. */
  private async work(lease: Lease): Promise<void> {
    this.phase = 'working';
    try {
      let taken = await this.take(lease);
      for (;;) {
        if (taken === null) return await this.leave(lease, 'back_off');
        // A turn that ended while it waited for others has left its place, and somebody else may have it.
        if (this.leaving || !this.place.take()) return await this.leave(lease, 'leave');
        if (taken.kind === 'taken') {
          await this.deps.steps.reach('actor.taken', { session: this.session });
          const served = await this.serve(lease, taken.ref);
          if (served === 'left') return;
          taken = served;
        } else if (this.wokenAgain) {
          taken = await this.take(lease);
        } else {
          return this.fallAsleep();
        }
      }
    } catch (error) {
      this.note('failed', error);
      await this.leave(lease, 'back_off');
    }
  }

  /** The next turn in line; null when the actor is to back off. */
  private async take(lease: Lease): Promise<Next | null> {
    await this.deps.steps.reach('actor.taking', { session: this.session });
    return this.next(lease, () => this.deps.queue.take(this.session, lease.owner));
  }

  /** Works on one envelope; what comes next, or `left` when the actor has left. */
  private async serve(lease: Lease, ref: Ref): Promise<Next | null | 'left'> {
    const outcome = await this.runTurn(lease, ref);
    await this.deps.steps.reach('actor.served', { session: this.session, outcome: outcome.kind });
    switch (outcome.kind) {
      case 'ended':
      case 'dropped': {
        const state = outcome.kind === 'ended' ? outcome.state : null;
        return this.next(lease, () => this.deps.queue.complete(this.session, lease.owner, ref, state));
      }
      case 'behind': {
        const restored = await this.persist(lease, () =>
          this.deps.queue.restore(this.session, lease.owner, outcome.live),
        );
        return restored === 'restored' ? this.take(lease) : null;
      }
      case 'yielded':
      case 'stale':
        await this.leave(lease, 'leave');
        return 'left';
      case 'claim_refused':
      case 'faulty':
        // Another owner may have the session, or trying again at once would fail again: the sweep looks again.
        await this.leave(lease, 'back_off');
        return 'left';
    }
  }

  private async runTurn(lease: Lease, ref: Ref): Promise<RunOutcome> {
    const turn = new AbortController();
    this.turn = turn;
    try {
      if (!lease.trusted) return { kind: 'stale' };
      return await this.deps.handler.run(lease, ref, turn.signal, this.place);
    } finally {
      this.turn = null;
      this.place.settle();
    }
  }

  /** Whoever wakes the actor from here on may know of work that the answer does not. */
  private async next(lease: Lease, call: () => Promise<TakeAnswer>): Promise<Next | null> {
    this.wokenAgain = false;
    const answer = await this.persist(lease, call);
    return answer?.kind === 'not_owner' ? null : answer;
  }

  /** Repeats a call through an outage of Redis while the lease is trusted and nobody waits for us to go; else null. */
  private async persist<T>(lease: Lease, call: () => Promise<T>): Promise<T | null> {
    while (lease.trusted) {
      try {
        return await call();
      } catch (error) {
        if (!(error instanceof UnavailableError)) throw error;
        if (this.leaving) return null;
        await this.deps.clock.sleep(OUTAGE_PAUSE_MS);
      }
    }
    return null;
  }

  private fallAsleep(): void {
    this.phase = 'asleep';
    this.asleepSinceMs = this.deps.clock.monotonicMs();
    this.place.leave();
  }

  private async goOffDuty(lease: Lease): Promise<void> {
    await this.deps.steps.reach('actor.releasing', { session: this.session });
    const answer = await this.release(lease, 'idle');
    if (answer === 'unknown')
      this.phase = 'asleep'; // the next sweep tries again
    else if (answer !== 'work') this.end();
    else if (this.place.take()) await this.work(lease);
    else await this.leave(lease, 'leave');
  }

  private async leave(lease: Lease, manner: ReleaseManner): Promise<void> {
    this.phase = 'working';
    await this.deps.steps.reach('actor.leaving', { session: this.session });
    await this.release(lease, manner);
    // Whoever backs off is not to come back at once; who leaves has told the other pods if work waits.
    if (manner === 'back_off') {
      this.wokenAgain = false;
      this.setBack = true;
    }
    this.end();
  }

  private async release(lease: Lease, manner: ReleaseManner): Promise<ReleaseAnswer | 'unknown'> {
    try {
      return await this.deps.keeper.release(lease, manner);
    } catch (error) {
      this.note('could not release', error);
      return 'unknown';
    }
  }

  private end(): void {
    this.phase = 'gone';
    this.lease = null;
    this.place.leave();
    this.host.gone(this, { woken: this.wokenAgain, setBack: this.setBack });
  }

  private note(what: string, error: unknown): void {
    const { account, sessionId } = this.session;
    this.logger.warn({ account, sessionId, error: String(error) }, `actor ${what}`);
  }
}
