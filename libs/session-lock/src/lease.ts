import type { Owner, SessionKey } from '#protocol';
import { StaleOwnerError } from '#protocol';
import type { Clock } from '#platform';
import { Certainty } from './certainty.js';

/**
 * One held lease, as its holder sees it. Trust ends at the moment the last good renewal was sent + TTL − margin, on the
 * monotonic clock: before anybody else can hold the lock, whatever the holder or its connection does meanwhile (I1, I4).
 * Once lost it is never trusted again.
 */
export class Lease {
  /** Whether the ledger has accepted this lease's epoch. Until then its first write is a claim. */
  claimed = false;
  private lost = false;

  constructor(
    readonly session: SessionKey,
    readonly owner: Owner,
    private readonly clock: Clock,
    private trustedUntilMs: number,
    private readonly certainty = new Certainty(),
  ) {}

  get trusted(): boolean {
    return !this.lost && this.clock.monotonicMs() < this.trustedUntilMs;
  }

  /** The monotonic moment at which trust ends unless renewed, in ms. */
  get deadlineMs(): number {
    return this.lost ? -Infinity : this.trustedUntilMs;
  }

  /** To be called before every side effect. @throws StaleOwnerError */
  assertTrusted(): void {
    if (!this.trusted) {
      throw new StaleOwnerError(
        `the lease of ${this.session.sessionId} at epoch ${this.owner.epoch} is not trusted any more`,
      );
    }
  }

  /** Whether nothing speaks against it: only then something new may be begun. */
  get certain(): boolean {
    return this.certainty.holds;
  }

  /** Resolves when nothing speaks against it any more. */
  becomesCertain(): Promise<void> {
    return this.certainty.returns();
  }

  extend(trustedUntilMs: number): void {
    this.trustedUntilMs = trustedUntilMs;
  }

  lose(): void {
    this.lost = true;
  }
}
