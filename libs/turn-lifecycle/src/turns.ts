import type { Id, Kind, Meta, Mode, Ref, SessionKey, SRef, TurnError, TurnMove, TurnState } from '#protocol';
import type { SqlRunner, Tx } from '#platform';

/** A turn as stored. Times in ms since 1970 UTC. */
export interface TurnRow {
  account: Id;
  turnId: Id;
  sessionId: Id;
  /** Ancestors' turnIds and its own, joined by `/`. */
  path: string;
  parent: SRef | null;
  state: TurnState;
  generation: number;
  /** The seq of the event that queued this generation; null for a tombstone. */
  queueSeq: number | null;
  /** The seq of `message.accepted`; null for a tombstone. */
  acceptedSeq: number | null;
  /** The seq of the event that holds the present content. */
  contentSeq: number | null;
  mode: Mode;
  kind: Kind;
  initiator: string | null;
  metadata: Meta | null;
  /** Digest of the POST as first accepted (session, initiator, content, mode, metadata); null for a tombstone. */
  digest: string | null;
  attempts: number;
  absorbedBy: Ref | null;
  stop: (StopOrder & { atMs: number }) | null;
  error: TurnError | null;
  acceptedAtMs: number | null;
  queuedAtMs: number | null;
  startedAtMs: number | null;
  endedAtMs: number | null;
  /** When its message was refused first, of a turn that was stopped before it came. */
  refusedAtMs: number | null;
}

/** Who stops a turn, and the stopped ancestor that the stop came from. */
export interface StopOrder {
  by: string;
  reason?: string;
  via?: Ref;
}

/** A turn that is stopped before its message has come. */
export interface Tombstone {
  account: Id;
  turnId: Id;
  sessionId: Id;
  /** Whose message it meets; null: anybody's. */
  initiator: string | null;
}

/** A message on its way in. */
export interface NewTurn {
  account: Id;
  turnId: Id;
  sessionId: Id;
  parent: SRef | null;
  path: string;
  mode: Mode;
  kind: Kind;
  initiator: string;
  metadata: Meta | null;
  digest: string;
}

/** A live turn as the queue, the reconciler and the order check need it. */
export interface LiveTurn extends Ref {
  session: SessionKey;
  path: string;
  mode: Mode;
  state: TurnState;
  queueSeq: number;
  initiator: string;
  parent: Id | null;
}

/** How many turns of a session are queued, and which one runs. */
export interface SessionLoad {
  queued: number;
  running: (Ref & { state: TurnState; attempts: number; startedAtMs: number }) | null;
}

/** What changes with a move, beside the state. */
export interface MoveFacts {
  nowMs: number;
  attempts?: number;
  error?: TurnError;
  /** Who stops, with the move `stop`; the first one stays. */
  stop?: StopOrder;
  /** The running turn that takes this one in, with the move `absorb`. */
  absorbedBy?: Ref;
}

/**
 * The turns' rows: the state table as conditional updates. The gates call them inside one transaction with the ledger's
 * appends. Lock order: turn rows by (account, path), ancestors one row at a time, then session rows. New rows are inserted
 * at the end, in sorted order.
 */
export abstract class Turns {
  /** A turn as committed, without a lock. */
  abstract find(runner: SqlRunner, account: Id, turnId: Id): Promise<TurnRow | null>;

  /** A turn, locked until the transaction ends. */
  abstract lock(tx: Tx, account: Id, turnId: Id): Promise<TurnRow | null>;

  /**
   * A turn, locked against changes until the transaction ends; others may lock it so too. For ancestors: one at a time,
   * the highest first, before any turn below it is locked.
   */
  abstract lockShared(tx: Tx, account: Id, turnId: Id): Promise<TurnRow | null>;

  /** The live turns below this path, of any depth, locked in the order of their paths. Its own row is locked before. */
  abstract lockLiveBelow(tx: Tx, account: Id, path: string): Promise<TurnRow[]>;

  /** The state of a turn, read plainly when all locks of the transaction are held. */
  abstract stateIn(tx: Tx, account: Id, turnId: Id): Promise<{ generation: number; state: TurnState } | null>;

  /** Inserts a turn as stopped, before its message has come. Two at once: the second is repeated. */
  abstract insertTombstone(tx: Tx, turn: Tombstone, facts: { nowMs: number; stop: StopOrder }): TurnRow;

  /**
   * Inserts a queued turn with its place in the order: `seq` is that of its `message.accepted`. Written when the work is
   * done. Two transactions with the same turnId: the second meets a duplicate key and is repeated.
   * @throws RunAlone when another work of the same group inserts it; so call it before anything else is written
   */
  abstract insert(tx: Tx, turn: NewTurn, place: { seq: number; nowMs: number }): TurnRow;

  /**
   * Makes one move of the state table on a locked row of this generation; written when the work is done. Answers the new
   * state, which the row has from now on.
   * @throws Error when the table does not allow the move or the row is another than the one locked: a fault in the caller
   */
  abstract move(tx: Tx, row: TurnRow, move: TurnMove, facts: MoveFacts): TurnState;

  /** Puts the next generation of a locked row that has ended in line, its `turn.queued` being at `seq`. */
  abstract retry(tx: Tx, row: TurnRow, place: { seq: number; nowMs: number }): void;

  /** Moves a locked row that has ended to its next generation, stopped [G2]. */
  abstract stopAhead(tx: Tx, row: TurnRow, facts: { nowMs: number; stop: StopOrder }): void;

  /** Gives a locked row that is queued another content, the one of the event at `seq`. */
  abstract edit(tx: Tx, row: TurnRow, seq: number): void;

  /** Notes on a locked turn whose stop was requested before that a turn above it was stopped too. */
  abstract noteStopAbove(tx: Tx, row: TurnRow, via: Ref): void;

  /** Notes on a locked tombstone that its message was refused. */
  abstract noteRefusal(tx: Tx, row: TurnRow, nowMs: number): void;

  /** The live turns of a session that have a place, by queueSeq. Read plainly: no lock (that brought deadlocks). */
  abstract live(runner: SqlRunner, session: SessionKey): Promise<LiveTurn[]>;

  /**
   * How many turns of a session are queued, reports not counted (QUEUE_MAX_PENDING neither counts nor refuses them).
   * Exact only while the caller holds the session row's lock.
   */
  abstract countQueued(runner: SqlRunner, session: SessionKey): Promise<number>;

  /**
   * How many turns this transaction puts in line by itself, those of others in its group included and reports not
   * counted. True until the next wait: the others go on meanwhile.
   */
  abstract countInserted(tx: Tx, session: SessionKey): number;

  /** Loads of many sessions, in their order. One query over live turns. */
  abstract loads(sessions: readonly SessionKey[]): Promise<SessionLoad[]>;

  /** Turns of a session by queueSeq, above `after`; tombstones are left out. */
  abstract list(session: SessionKey, after: number, limit: number, state: TurnState | null): Promise<TurnRow[]>;

  /**
   * Live turns of these partitions that were queued at or before `queuedBeforeMs`, in the order (partition, account,
   * session, queueSeq), by index, behind the cursor (the last row of an earlier page). Its cost grows with live turns
   * only.
   */
  abstract liveIn(
    partitions: readonly number[],
    queuedBeforeMs: number,
    after: LiveTurn | null,
    limit: number,
  ): Promise<LiveTurn[]>;

  /** The states of many turns; a turn that is unknown, or of another generation by now, is answered null. One query. */
  abstract states(turns: readonly (Ref & { account: Id })[]): Promise<(TurnState | null)[]>;

  /** The ledger's clock, ms since 1970 UTC. */
  abstract nowMs(): Promise<number>;
}
