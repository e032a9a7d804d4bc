import type { SessionKey } from './ids.js';
import type { Ref } from './envelope.js';

/** What is said on pod channels. All of it is a hint: the sweep finds what a lost notification would have told. */
export type PodNotice =
  | ({ type: 'wake' } & SessionKey)
  | ({ type: 'stop' } & SessionKey & Ref)
  | { type: 'renew'; partitions: number[] }
  /** A pod can be heard, or will not be any more. `pod`: its name with its boot. */
  | { type: 'hello' | 'bye'; pod: string };

export function encodeNotice(notice: PodNotice): string {
  return JSON.stringify(notice);
}

export function decodeNotice(text: string): PodNotice {
  return JSON.parse(text) as PodNotice;
}
