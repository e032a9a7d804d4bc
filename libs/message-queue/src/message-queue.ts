import type { Id, Owner, Ref, SessionKey, TerminalState } from '#protocol';

/** What the lifecycle record keeps beside state and generation, for operators. */
export interface RecordFacts {
  initiator: string;
  /** The direct parent's turnId, or null. */
  parent: Id | null;
}

export type TakeAnswer = { kind: 'taken'; ref: Ref } | { kind: 'empty' } | { kind: 'not_owner' };

export interface ReadySession {
  session: SessionKey;
  /** When it was indexed, ms since 1970. */
  sinceMs: number;
}

/**
 * The waiting line of each session: pending, processing (at most one) and the index of sessions that have something in
 * either. A copy of the ledger's live turns that may be lost at any moment. Every call is one step that nothing
 * interleaves with; repeating it is harmless. Calls for an owner compare the lock with the owner's token first and touch
 * nothing when they differ. (While the partition is not intact, such a call of a still trusted owner sets an absent lock,
 * or one of a lower epoch, again.)
 * @throws UnavailableError when coordination cannot be reached; the call may have happened
 */
export abstract class MessageQueue {
  /**
   * Puts a turn at the end of the line unless it already stands in it, records it as queued, indexes the session and
   * wakes the owner's pod. `ended`: the record says that this generation, or a later one, is over; nothing was done.
   */
  abstract enqueue(
    session: SessionKey,
    ref: Ref,
    facts: RecordFacts,
  ): Promise<{ kind: 'ended' } | { kind: 'queued'; owner: Owner | null }>;

  /** The turn to work on: processing's head if there is one, else pending's head, moved to processing. */
  abstract take(session: SessionKey, owner: Owner): Promise<TakeAnswer>;

  /**
   * Removes a turn from both lists, records `state`, and takes the next one in the same step. A null `state` leaves the
   * record (an envelope that was dropped).
   */
  abstract complete(session: SessionKey, owner: Owner, ref: Ref, state: TerminalState | null): Promise<TakeAnswer>;

  /**
   * Puts `refs`, the ledger's live turns in order, in front, keeps everything else behind them, and empties processing.
   * Allowed to the owner, or, while the partition is being filled, to the filler with this nonce. Wakes the owner, or
   * all pods when there is none.
   */
  abstract restore(
    session: SessionKey,
    by: Owner | { nonce: string },
    refs: readonly Ref[],
  ): Promise<'restored' | 'not_allowed'>;

  /** Both lists as they stand. */
  abstract lists(session: SessionKey): Promise<{ pending: Ref[]; processing: Ref | null }>;

  /** For each turn, whether it stands in either list of its session. One round trip. */
  abstract present(turns: readonly { session: SessionKey; ref: Ref }[]): Promise<boolean[]>;

  /** Sessions with something in either list, longest waiting first, at most `perPartition` of each. One round trip. */
  abstract ready(perPartition: number): Promise<ReadySession[]>;
}

/** Whether a partition is a full copy of the ledger (`intact`), is being filled by some pod, or was lost. */
export type PartitionState = 'intact' | 'filling' | 'lost';

/** The marks of the partitions: who fills one that was lost, and whose turn it is to reconcile it. */
export abstract class PartitionMarks {
  /** The states of all partitions, by number. One round trip. */
  abstract states(): Promise<PartitionState[]>;

  /** Marks lost partitions as being filled by `nonce`, for FILL_MARK_TTL_MS; which of them are now this nonce's. */
  abstract beginFilling(partitions: readonly number[], nonce: string): Promise<number[]>;

  /** Gives marks that still hold `nonce` FILL_MARK_TTL_MS from now; which of them did. */
  abstract keepFilling(partitions: readonly number[], nonce: string): Promise<number[]>;

  /** Marks partitions as intact; which of them: only those whose mark still holds `nonce`. */
  abstract finishFilling(partitions: readonly number[], nonce: string): Promise<number[]>;

  /** Takes the turn at reconciling these partitions for `ttlMs`; which of them it got. */
  abstract claimReconciling(partitions: readonly number[], nonce: string, ttlMs: number): Promise<number[]>;
}
