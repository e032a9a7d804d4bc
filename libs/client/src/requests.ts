import type { Accepted, Content, Event, Id, Meta, Mode, Session, Turn, TurnState } from '#protocol';

/** What every call takes. */
export interface CallOptions {
  /** Gives the call up, also while it waits to be sent again: it rejects with the signal's reason. */
  signal?: AbortSignal;
}

export interface PageQuery extends CallOptions {
  /** The `nextAfter` of the page to go on behind. */
  after?: string;
  /** Items of one page: 1 to 1000, 100 by default. */
  limit?: number;
}

export interface TurnsQuery extends PageQuery {
  state?: TurnState;
}

export interface EventsQuery extends Omit<PageQuery, 'after'> {
  /** The seq of the last event that you have; 0, the default: from the beginning. */
  after?: number;
}

export interface NewSession {
  /** Chosen by the client when it is left out. */
  sessionId?: Id;
  title?: string;
  metadata?: Meta;
}

/** What is left out stays; null takes it away. */
export interface SessionChange {
  title?: string | null;
  metadata?: Meta | null;
}

export interface NewMessage {
  /**
   * Chosen by the client when it is left out. Keep one of your own where the message may be posted again by a later
   * call, after a reload for example: the same message under the same id is one message.
   */
  turnId?: Id;
  content: Content;
  mode?: Mode;
  metadata?: Meta;
}

export interface StopOptions extends CallOptions {
  /** The generation to stop. Left out: the present one when the stop arrives, also when it is sent again. */
  generation?: number;
  /** At most 1024 UTF-16 units. */
  reason?: string;
}

/** `replayed`: it had been accepted before; by an earlier call, or by an attempt of this one whose answer got lost. */
export type Acceptance = Accepted & { replayed: boolean };

export interface Sessions {
  sessions: Session[];
  nextAfter: string | null;
  hasMore: boolean;
}

export interface Turns {
  turns: Turn[];
  nextAfter: string | null;
  hasMore: boolean;
}

export interface Events {
  events: Event[];
  nextAfter: number;
  hasMore: boolean;
}
