import type { Event, LiveDelta, SessionKey } from '#protocol';

/**
 * What watchers are told at once: events just committed, and pieces of text on their way. Events that are too large to
 * be broadcast are left out: `lastSeq` then tells that there is something to read.
 */
export type LiveFrame = { kind: 'events'; events: Event[]; lastSeq: number } | { kind: 'delta'; delta: LiveDelta };

/**
 * The live channel of each session. A hint like every notification: a watcher that sees a jump in seq, or nothing for a
 * while, reads the ledger.
 */
export abstract class LiveEvents {
  /** Tells the watchers of a session what was committed. Never rejects. */
  abstract committed(session: SessionKey, events: readonly Event[]): void;

  /** Tells the watchers a piece of live text. Never rejects. */
  abstract delta(session: SessionKey, delta: LiveDelta): void;

  /** Resolves when the subscription stands; the answer ends it. */
  abstract follow(session: SessionKey, listener: (frame: LiveFrame) => void): Promise<() => void>;
}
