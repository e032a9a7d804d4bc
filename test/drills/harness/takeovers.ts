import type { Event, Id } from '#protocol';
import { type Reading, timeOf } from './reading.js';

const LEFT = new Set<Event['type']>(['turn.completed', 'turn.failed', 'turn.stopped', 'turn.yielded']);

/** A pod that was killed or frozen, and when; in ms since 1970, as the ledger's times. */
export interface Gone {
  pod: Id;
  atMs: number;
}

export interface Takeover {
  session: Id;
  turnId: Id;
  /** The boot that had the turn. */
  boot: Id;
  /** Until the next owner's first event; null: it never came. */
  tookMs: number | null;
}

/** How each turn that ran on the pod went on elsewhere. One that ended on that pod after all is none. */
export function takeovers({ sessions }: Reading, gone: Gone): Takeover[] {
  return [...sessions].flatMap(([session, events]) => {
    const at = events.findIndex((event) => timeOf(event) > gone.atMs);
    const [before, after] = at < 0 ? [events, []] : [events.slice(0, at), events.slice(at)];
    const owner = before.findLast((event) => event.type === 'owner.changed');
    const turnId = running(before);
    if (owner?.data.podId !== gone.pod || turnId === null) return [];
    const next = after.findIndex(({ type }) => type === 'owner.changed');
    if (running([...before, ...after.slice(0, next < 0 ? after.length : next)]) !== turnId) return [];
    const tookMs = next < 0 ? null : timeOf(after[next]!) - gone.atMs;
    return [{ session, turnId, boot: owner.data.boot, tookMs }];
  });
}

/** The turn that runs after these events. What is said of turns that wait changes nothing. */
function running(events: readonly Event[]): Id | null {
  let turn: Id | null = null;
  for (const { type, turnId } of events) {
    if (type === 'turn.started' || type === 'turn.resumed') turn = turnId;
    else if (LEFT.has(type) && turnId === turn) turn = null;
  }
  return turn;
}
