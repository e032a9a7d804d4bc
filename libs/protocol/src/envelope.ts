import type { Id } from './ids.js';

/** One try of a turn. */
export interface Ref {
  turnId: Id;
  generation: number;
}

/** The one canonical spelling of an envelope in the lists: equal envelopes are equal strings. */
export function encodeEnvelope(ref: Ref): string {
  return `{"turnId":"${ref.turnId}","generation":${ref.generation}}`;
}

export function decodeEnvelope(envelope: string): Ref {
  return JSON.parse(envelope) as Ref;
}

export function sameRef(a: Ref, b: Ref): boolean {
  return a.turnId === b.turnId && a.generation === b.generation;
}
