import type { Event, LiveDelta } from '#protocol';

/** Something that a watcher is given. `json` is the event or delta as one JSON text, made once for all its watchers. */
export type LiveItem =
  { kind: 'event'; event: Event; json: string } | { kind: 'delta'; delta: LiveDelta; json: string };

/** `slow`: the watcher's buffer was full. Either way: reconnect and go on behind `after`. */
export type EndReason = 'draining' | 'slow';

export type StreamFrame = LiveItem | { kind: 'end'; reason: EndReason; after: number };

export function eventItem(event: Event): LiveItem {
  return { kind: 'event', event, json: JSON.stringify(event) };
}

export function deltaItem(delta: LiveDelta): LiveItem {
  return { kind: 'delta', delta, json: JSON.stringify(delta) };
}
