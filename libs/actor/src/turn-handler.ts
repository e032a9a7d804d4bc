import type { Ref, RunOutcome } from '#protocol';
import type { Lease } from '#session-lock';

/** What an actor has its turns done by. The app puts the turn runner here. */
export abstract class TurnHandler {
  /**
   * Works on one envelope under a lease until it has an outcome. Never rejects.
   * @param signal aborted when the lease is lost or the pod must leave at once; the answer then comes promptly
   */
  abstract run(lease: Lease, ref: Ref, signal: AbortSignal): Promise<RunOutcome>;
}

/** What fills a partition that Redis has lost. The app puts the recovery here. */
export abstract class PartitionFiller {
  /** Resolves when the partition is intact again, or when that cannot be had now. */
  abstract ensureIntact(partition: number): Promise<void>;
}
