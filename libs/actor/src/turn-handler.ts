import type { Id, Ref, Room, RunOutcome, SessionKey } from '#protocol';
import type { Lease } from '#session-lock';

/** What an actor has its turns done by. The app puts the turn runner here. */
export abstract class TurnHandler {
  /**
   * Works on one envelope under a lease until it has an outcome. Never rejects.
   * @param signal aborted when the lease is lost or the pod must leave at once; the answer then comes promptly
   * @param room what it has; it may end without
   */
  abstract run(lease: Lease, ref: Ref, signal: AbortSignal, room: Room): Promise<RunOutcome>;

  /** Somebody says that this turn is to stop. Whether that is so, the ledger knows. Never rejects. */
  abstract stopRequested(account: Id, ref: Ref): Promise<void>;

  /** Something was put in line behind the turn that this session runs. */
  abstract woken(session: SessionKey): void;

  /** Looks for what notices have missed, for all turns under way at once. Never rejects. */
  abstract look(): Promise<void>;
}

/** What fills a partition that Redis has lost. The app puts the recovery here. */
export abstract class PartitionFiller {
  /** Resolves when the partition is intact again, or when that cannot be had now. */
  abstract ensureIntact(partition: number): Promise<void>;
}
