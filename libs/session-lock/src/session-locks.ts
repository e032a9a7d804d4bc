import type { Owner, SessionKey } from '#protocol';

export type AcquireAnswer =
  | { kind: 'acquired' }
  | { kind: 'held'; owner: Owner }
  /** Redis lost this partition; it must be filled from the ledger first. */
  | { kind: 'not_intact' };

/** `idle`: keep the lock if work waits. `leave`: go, and tell the other pods if work waits. `back_off`: go silently. */
export type ReleaseManner = 'idle' | 'leave' | 'back_off';
export type ReleaseAnswer = 'released' | 'work' | 'not_owner';

export interface Hold {
  session: SessionKey;
  owner: Owner;
}

/**
 * The leases of sessions: at most one owner each (I1, together with the ledger's fence). Every call is one step that
 * nothing interleaves with, and doing it twice with the same arguments is doing it once, so a lost reply is harmless.
 * A lock is one's own only if it holds exactly the token of `owner`.
 * @throws UnavailableError when coordination cannot be reached; the call may have happened
 */
export abstract class SessionLocks {
  /**
   * Takes the lease for LEASE_TTL_MS if nobody holds it. `owner.epoch` is the ledger's present epoch + 1. A lock that
   * already holds this very token counts as acquired: it is an earlier call of the same actor whose reply was lost.
   */
  abstract acquire(session: SessionKey, owner: Owner): Promise<AcquireAnswer>;

  /**
   * Pushes out the expiry of these leases, all of one partition and so few that one step may do it (`batchesByPartition`
   * makes such batches); for each, whether it is still the owner's. While the partition is not intact, an absent lock or
   * one of a lower epoch is set again: so call it only for leases that are still trusted.
   */
  abstract renew(holds: readonly Hold[]): Promise<boolean[]>;

  /** Gives the lease back. `work` (only for `idle`): something waits, the lease is kept. */
  abstract release(session: SessionKey, owner: Owner, manner: ReleaseManner): Promise<ReleaseAnswer>;

  /**
   * Removes the lease of a pod that is gone: only if exactly this owner holds it and nobody listens on its pod's channel,
   * asked in one step. Whether the lock is free now.
   */
  abstract bury(session: SessionKey, owner: Owner): Promise<boolean>;

  /** The present owners of many sessions, in their order. */
  abstract owners(sessions: readonly SessionKey[]): Promise<(Owner | null)[]>;

  /** The present owner and how long its lease would last without renewal. */
  abstract holder(session: SessionKey): Promise<{ owner: Owner; leaseRemainingMs: number } | null>;
}
