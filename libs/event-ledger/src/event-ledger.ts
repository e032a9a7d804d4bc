import type { Event, EventDraft, Id, Meta, PodName, SessionKey } from '#protocol';
import type { SqlRunner, Tx } from '#platform';

/** A session's row, locked by the transaction that read it. */
export interface SessionHead {
  session: SessionKey;
  /** The seq that the next event gets. */
  nextSeq: number;
  ownerEpoch: number;
  /** The ledger's clock, ms since 1970 UTC, read when the lock was obtained. */
  nowMs: number;
  /** It is opened by this transaction. */
  isNew: boolean;
  /** The session whose turn opened it for a child; null when a user did. Whoever opens it may say so. */
  spawnedBy: Id | null;
}

/** Who writes. A producer (accepting a message, queueing, asking for a stop) has no epoch to compare. */
export type Writer =
  | { kind: 'producer' }
  | { kind: 'owner'; epoch: number }
  /** The owner's first write: it claims the session for its epoch and leaves `owner.changed` before its events. */
  | { kind: 'claim'; epoch: number; pod: PodName };

/**
 * One append: its events get consecutive seqs. `id` is how the writer recognises its own append after a lost answer; at
 * most 191 ASCII characters, unique in its session.
 */
export interface Append {
  id: string;
  writer: Writer;
  events: readonly EventDraft[];
  /** Whether this counts as activity of the session (a message, a turn's end); most step events do not. */
  activity?: boolean;
}

/** What an append reads beside. */
export interface Beside<T> {
  read(tx: Tx): Promise<T>;
  heard(answer: T): void;
}

/** A session as stored. Times in ms since 1970 UTC. */
export interface SessionRow {
  session: SessionKey;
  title: string | null;
  metadata: Meta | null;
  /**
   * What the session was created with, as a digest; so that a repeated creation is told from another one. Empty when its
   * first message has opened it: that equals no creation.
   */
  digest: string;
  lastSeq: number;
  ownerEpoch: number;
  createdAtMs: number;
  lastActivityAtMs: number;
}

/**
 * The complete record and the only truth: sessions and their events.
 *
 * - An event's seq is gapless and commit-ordered in its session: the append takes its numbers under the session row's
 *   lock (I10).
 * - An owner's append is refused with `StaleOwnerError` unless its epoch is the newest that has claimed the session; a
 *   claim is refused unless its epoch is higher than that (strictly) (I1).
 * - An append whose answer was lost is found again by its `id`, under the session row's lock, and is never doubled (I4).
 *
 * Lock order of every transaction: turn rows first (by account and path), then session rows in sorted order. So
 * `lockHead` and `openHead` come after every turn lock. (New rows are inserted at the end, in sorted order.)
 */
export abstract class EventLedger {
  /** Locks a session's row, or null when there is no such session. */
  abstract lockHead(tx: Tx, session: SessionKey): Promise<SessionHead | null>;

  /** Locks a session's row; creates it when it is new. */
  abstract openHead(tx: Tx, session: SessionKey): Promise<SessionHead>;

  /**
   * Appends under a head that this transaction has locked, and moves the head on. Written when its work is done.
   * @throws StaleOwnerError when the writer's epoch is refused; nothing is written then
   * @throws EventTooLargeError when one event is over EVENT_MAX_BYTES
   */
  abstract append(tx: Tx, head: SessionHead, append: Append): Event[];

  /**
   * The events that an append of this id has written at or behind `fromSeq`; empty when it has not. To be asked when
   * `tx.uncertain`, with the head locked, and `fromSeq` = the nextSeq that the first attempt saw.
   */
  abstract appended(tx: Tx, head: SessionHead, id: string, fromSeq: number): Promise<Event[]>;

  /**
   * Appends in a transaction of its own, sharing one commit with whatever other sessions' appends wait at the moment.
   * After an UnavailableError it may have happened: appended again with the same `id`, it is not doubled. An unknown
   * session refuses every writer.
   * @param beside what is to be read in the same transaction, at the cost of no further round trip, e.g. whether the turn
   *   is to stop: given to `heard` once the append has been committed
   * @throws StaleOwnerError, UnavailableError; EventTooLargeError when one event is over EVENT_MAX_BYTES
   */
  abstract appendGrouped<T = void>(session: SessionKey, append: Append, beside?: Beside<T>): Promise<Event[]>;

  /** Creates a session, or finds it. `created` false: it was there, compare digests. */
  abstract createSession(
    session: SessionKey,
    given: { title: string | null; metadata: Meta | null; digest: string },
  ): Promise<{ created: boolean; row: SessionRow }>;

  /** Changes title or metadata (undefined leaves, null clears); null when there is no such session. */
  abstract updateSession(
    session: SessionKey,
    change: { title?: string | null; metadata?: Meta | null },
  ): Promise<SessionRow | null>;

  abstract findSession(session: SessionKey): Promise<SessionRow | null>;

  /** Sessions of an account, newest activity first, behind the cursor (a row of an earlier page). */
  abstract listSessions(
    account: Id,
    after: { lastActivityAtMs: number; sessionId: Id } | null,
    limit: number,
  ): Promise<SessionRow[]>;

  /** Events with a seq above `after`, in order; of one turn's try only, when `turn` is given. */
  abstract events(
    session: SessionKey,
    after: number,
    limit: number,
    turn?: { turnId: Id; generation: number },
  ): Promise<Event[]>;

  /** Single events by seq, e.g. the content of many turns; missing ones are left out. */
  abstract eventsAt(runner: SqlRunner, session: SessionKey, seqs: readonly number[]): Promise<Event[]>;

  /** One event by seq, read together with what others of the same group read. */
  abstract eventAt(tx: Tx, session: SessionKey, seq: number): Promise<Event | null>;

  /** The last seq of many sessions, in their order; 0 for an unknown one. One query. */
  abstract lastSeqs(sessions: readonly SessionKey[]): Promise<number[]>;

  /** The newest epoch that has claimed the session; 0 when none has, or the session is unknown. */
  abstract ownerEpoch(session: SessionKey): Promise<number>;
}
