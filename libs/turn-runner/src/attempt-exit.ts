import type { EventData } from '#protocol';
import { type Clock, type Drain, UnavailableError } from '#platform';
import type { Lease } from '#session-lock';

export type YieldReason = EventData['turn.yielded']['reason'];

/** Why an attempt's work ends before the agent says that it is done. */
export type ExitCause =
  /** The turn stays as it is and goes on under the next owner. */
  | { kind: 'yield'; reason: YieldReason }
  /** The lease is not trusted any more, or (`refused`) the ledger has refused a write: somebody else may own the turn. */
  | { kind: 'stale'; refused: boolean; reason: YieldReason }
  /** The turn's stop was requested. What is under way is aborted, what it still yields may be recorded. */
  | { kind: 'stop' }
  /** The agent is done or has failed; the same as a stop for whatever it has left running. */
  | { kind: 'over' }
  /** A fault in this program: nothing is decided about the turn. */
  | { kind: 'fault'; error: unknown };

/** Thrown by the context's calls through the agent, which lets it pass. */
export class LeaveSignal extends Error {
  override readonly name = 'LeaveSignal';

  constructor(readonly exit: ExitCause) {
    super(`this attempt at the turn is over (${exit.kind})`);
  }
}

/**
 * The one place that knows whether an attempt goes on.
 *
 * Owns: the cause of its end, and the signal that steps and tools are given. The first cause stands, except that a stop
 * or a regular end gives way to whatever forbids to write. Keeps I4: every side effect asks `assertMayBegin` or
 * `assertMayRecord` in the same turn of the event loop in which it happens.
 */
export class AttemptExit {
  private readonly controller = new AbortController();
  private readonly onHardSignal = (): void => void this.leave(this.hardCause());
  private left: ExitCause | null = null;

  /** @param hard aborted by the actor when the lease is lost or the pod must leave at once */
  constructor(
    private readonly lease: Lease,
    readonly hard: AbortSignal,
    private readonly drain: Drain,
  ) {
    if (hard.aborted) this.onHardSignal();
    else hard.addEventListener('abort', this.onHardSignal, { once: true });
  }

  get cause(): ExitCause | null {
    return this.left;
  }

  /** Aborts as soon as the attempt has a cause to end. Its reason is a `LeaveSignal`. */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Whether results may still be recorded. */
  get mayRecord(): boolean {
    return this.left === null || this.left.kind === 'stop' || this.left.kind === 'over';
  }

  /** Ends the attempt; what is to be thrown. */
  leave(cause: ExitCause): LeaveSignal {
    if (this.mayRecord && (this.left === null || (cause.kind !== 'stop' && cause.kind !== 'over'))) this.left = cause;
    const signal = new LeaveSignal(this.left!);
    this.controller.abort(signal);
    return signal;
  }

  /** To be called right before an act that begins something new. @throws LeaveSignal */
  assertMayBegin(): void {
    this.assertMayRecord();
    if (this.left) throw new LeaveSignal(this.left);
  }

  /** To be called, and waited for, before something new is begun: while the lease is in doubt nothing is. @throws LeaveSignal */
  async whenCertain(): Promise<void> {
    while (!this.lease.certain) await this.race(this.lease.becomesCertain());
  }

  /** To be called right before a write that records what has already been done. @throws LeaveSignal */
  assertMayRecord(): void {
    if (!this.mayRecord) throw new LeaveSignal(this.left!);
    if (!this.lease.trusted) throw this.leave({ kind: 'stale', refused: false, reason: this.reason() });
  }

  /** To be called where no tool call is open. @throws LeaveSignal when the pod is draining */
  yieldIfDraining(): void {
    if (this.drain.started && this.left === null) throw this.leave({ kind: 'yield', reason: 'drain' });
  }

  /** Waits for `work`, but not beyond the attempt's end: whatever it does later is nobody's business. */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const onLeave = (): void => reject(this.signal.reason as LeaveSignal);
      if (this.signal.aborted) onLeave();
      else this.signal.addEventListener('abort', onLeave, { once: true });
      work.then(resolve, reject).finally(() => this.signal.removeEventListener('abort', onLeave));
    });
  }

  /**
   * Waits for `ms`, or until the attempt's end; where no tool call is open (`isBalanced`) also a drain ends the wait, and
   * the attempt with it. @throws LeaveSignal
   */
  async pause(clock: Clock, ms: number, isBalanced: boolean): Promise<void> {
    const over = isBalanced ? AbortSignal.any([this.signal, this.drain.signal]) : this.signal;
    await clock.sleep(ms, over).catch(() => undefined);
    if (isBalanced) this.yieldIfDraining();
    this.assertMayBegin();
  }

  dispose(): void {
    this.hard.removeEventListener('abort', this.onHardSignal);
  }

  private hardCause(): ExitCause {
    const reason = this.reason();
    return this.lease.trusted ? { kind: 'yield', reason } : { kind: 'stale', refused: false, reason };
  }

  /** An outage of Redis and a drain are nobody's fault and do not count as an attempt; so it matters which it was. */
  private reason(): YieldReason {
    if (this.hard.reason instanceof UnavailableError) return 'outage';
    return this.drain.started ? 'drain' : 'lease';
  }
}
