import type { MemoryStore } from './memory-store.js';

/** The twin of redis/scripts/holds.lua: the two must say the same. */
export function holds(store: MemoryStore, lock: string, intact: string, token: string, ttlMs: number): boolean {
  const held = store.get(lock);
  if (held === token) return true;
  if (store.get(intact) === 'yes') return false;
  if (held !== null && epochOf(held) >= epochOf(token)) return false;
  store.set(lock, token, ttlMs);
  return true;
}

/** The twin of redis/scripts/grow.lua. */
export function grow(
  store: MemoryStore,
  key: string,
  rank: number,
  ttlMs: number,
  fields: Readonly<Record<string, string>>,
): boolean {
  if (Number(store.hash(key).get('rank') ?? 0) >= rank) return false;
  store.setFields(key, { rank: String(rank), ...fields }, ttlMs);
  return true;
}

function epochOf(token: string): number {
  return Number(token.slice(token.lastIndexOf('/') + 1));
}
