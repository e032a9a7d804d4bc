import { type SessionKey, sessionName } from './ids.js';

/** How many parts the sessions are divided into; each has its own index of waiting work and its own Redis Cluster slot. */
export const PARTITIONS = 256;

/** The partition of a session, 0 to 255. FNV-1a, 32 bits (Fowler, Noll, Vo; RFC 9923), folded to a byte. */
export function partitionOf(session: SessionKey): number {
  let hash = 0x811c9dc5;
  for (const char of sessionName(session)) {
    hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193);
  }
  return ((hash >>> 24) ^ (hash >>> 16) ^ (hash >>> 8) ^ hash) & 0xff;
}

/** The partition as it stands in keys, braces included: `{007}`. */
export function partitionTag(partition: number): string {
  return `{${String(partition).padStart(3, '0')}}`;
}
