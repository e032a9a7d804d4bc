import type { ChannelListener } from './channels.js';
import type { Clock } from './clock.js';

/** How many keys with an expiry each write looks at in passing. More than one: so the dead are dropped faster than made. */
const LOOKS_PER_WRITE = 3;

/** All keys at one moment, with when they expire. */
export interface StoreCopy {
  strings: Map<string, string>;
  hashes: Map<string, Map<string, string>>;
  lists: Map<string, string[]>;
  sortedSets: Map<string, Map<string, number>>;
  expiries: Map<string, number>;
}

/**
 * The in-process stand-in for Redis: strings and hashes with expiry, lists, sorted sets, notifications. Everything is
 * synchronous, so whatever happens between two awaits is one step, as a script is. Several pods simulated in one process
 * share one store. Expired keys are dropped when met and a few more with each write; there is no timer per key.
 */
export class MemoryStore {
  private readonly strings = new Map<string, string>();
  private readonly hashes = new Map<string, Map<string, string>>();
  private readonly listsByKey = new Map<string, string[]>();
  private readonly sortedSets = new Map<string, Map<string, number>>();
  /** When keys expire, monotonic ms. */
  private readonly expiries = new Map<string, number>();
  private looking = this.expiries.entries();
  private readonly listeners = new Map<string, Set<{ hear: ChannelListener }>>();

  constructor(private readonly clock: Clock) {}

  /** Forgets all keys, as a flush or a restart without persistence does. Subscriptions stay. */
  clear(): void {
    for (const keys of [this.strings, this.hashes, this.listsByKey, this.sortedSets, this.expiries]) keys.clear();
  }

  /** Everything as it is now, for `become`. */
  copy(): StoreCopy {
    const copyAll = <V>(keys: ReadonlyMap<string, ReadonlyMap<string, V>>): Map<string, Map<string, V>> =>
      new Map([...keys].map(([key, fields]) => [key, new Map(fields)]));
    return {
      strings: new Map(this.strings),
      hashes: copyAll(this.hashes),
      lists: new Map(this.listsByKey),
      sortedSets: copyAll(this.sortedSets),
      expiries: new Map(this.expiries),
    };
  }

  /** Becomes what it was, as a replica does that lost the last writes when it took over. A copy is for one use. */
  become({ strings, hashes, lists, sortedSets, expiries }: StoreCopy): void {
    this.clear();
    for (const [key, value] of strings) this.strings.set(key, value);
    for (const [key, fields] of hashes) this.hashes.set(key, fields);
    for (const [key, values] of lists) this.listsByKey.set(key, values);
    for (const [key, members] of sortedSets) this.sortedSets.set(key, members);
    for (const [key, atMs] of expiries) this.expiries.set(key, atMs);
  }

  /** How many keys are held, expired ones that nobody has met yet included. */
  get size(): number {
    return this.strings.size + this.hashes.size + this.listsByKey.size + this.sortedSets.size;
  }

  get(key: string): string | null {
    this.dropIfExpired(key);
    return this.strings.get(key) ?? null;
  }

  /** Sets a string; without `ttlMs` it stays. */
  set(key: string, value: string, ttlMs?: number): void {
    this.strings.set(key, value);
    this.expireIn(key, ttlMs);
  }

  /** How long a key will last, in ms; null when it is absent or has no expiry. */
  ttlMs(key: string): number | null {
    this.dropIfExpired(key);
    const at = this.expiries.get(key);
    return at === undefined ? null : at - this.clock.monotonicMs();
  }

  delete(key: string): void {
    for (const keys of [this.strings, this.hashes, this.listsByKey, this.sortedSets, this.expiries]) keys.delete(key);
  }

  hash(key: string): ReadonlyMap<string, string> {
    this.dropIfExpired(key);
    return this.hashes.get(key) ?? new Map<string, string>();
  }

  /** Sets fields of a hash; `ttlMs` renews the expiry of the whole. */
  setFields(key: string, fields: Readonly<Record<string, string>>, ttlMs?: number): void {
    this.hashes.set(key, new Map([...this.hash(key), ...Object.entries(fields)]));
    if (ttlMs !== undefined) this.expireIn(key, ttlMs);
  }

  list(key: string): readonly string[] {
    return this.listsByKey.get(key) ?? [];
  }

  push(key: string, value: string): void {
    this.setList(key, [...this.list(key), value]);
  }

  setList(key: string, values: readonly string[]): void {
    if (values.length > 0) this.listsByKey.set(key, [...values]);
    else this.listsByKey.delete(key);
  }

  /** The first `count` members of a sorted set, by score, then by name. */
  firstOf(key: string, count: number): { member: string; score: number }[] {
    return [...(this.sortedSets.get(key) ?? [])]
      .map(([member, score]) => ({ member, score }))
      .sort((a, b) => a.score - b.score || (a.member < b.member ? -1 : 1))
      .slice(0, count);
  }

  has(key: string, member: string): boolean {
    return this.sortedSets.get(key)?.has(member) ?? false;
  }

  add(key: string, member: string, score: number): void {
    const members = this.sortedSets.get(key) ?? new Map<string, number>();
    this.sortedSets.set(key, members.set(member, score));
  }

  remove(key: string, member: string): void {
    const members = this.sortedSets.get(key);
    if (members?.delete(member) && members.size === 0) this.sortedSets.delete(key);
  }

  /** Says `message` to whoever listens now; each hears it in a microtask of its own. */
  publish(channel: string, message: string): void {
    for (const listener of this.listeners.get(channel) ?? []) {
      queueMicrotask(() => {
        if (this.listeners.get(channel)?.has(listener)) listener.hear(message);
      });
    }
  }

  /** The answer ends the subscription; nothing is heard after that. */
  subscribe(channel: string, hear: ChannelListener): () => void {
    const listener = { hear };
    const all = this.listeners.get(channel) ?? new Set();
    this.listeners.set(channel, all.add(listener));
    return () => {
      all.delete(listener);
      if (all.size === 0 && this.listeners.get(channel) === all) this.listeners.delete(channel);
    };
  }

  /** How many listen on a channel now. */
  subscribers(channel: string): number {
    return this.listeners.get(channel)?.size ?? 0;
  }

  /** The channels somebody listens on whose names begin so. */
  subscribed(prefix: string): string[] {
    return [...this.listeners.keys()].filter((channel) => channel.startsWith(prefix));
  }

  private expireIn(key: string, ttlMs: number | undefined): void {
    if (ttlMs === undefined) this.expiries.delete(key);
    else this.expiries.set(key, this.clock.monotonicMs() + ttlMs);
    for (let look = 0; look < LOOKS_PER_WRITE; look++) {
      const { value, done } = this.looking.next();
      if (done) this.looking = this.expiries.entries();
      else this.dropIfExpired(value[0]);
    }
  }

  private dropIfExpired(key: string): void {
    const at = this.expiries.get(key);
    if (at !== undefined && at <= this.clock.monotonicMs()) this.delete(key);
  }
}
