import { MemoryChannels } from './channels/memory.js';
import { RedisChannels } from './channels/redis.js';
import type { Channels } from './channels.js';
import type { Clock } from './clock.js';
import { MemoryStore } from './memory-store.js';
import type { Randomness } from './randomness.js';
import { RedisConnection, type RedisConnectionOptions } from './redis/redis-connection.js';

interface Shared {
  /** Stands before every key and channel. */
  readonly prefix: string;
  readonly channels: Channels;
  /** Calls back after each time that the connection for commands was lost and stands again. */
  onReconnected(listener: () => void): void;
  /** Bounded in time. To be called last: after the leases were given back. */
  close(): Promise<void>;
}

/** What the pods coordinate through, and from which each noun picks its adapter: Redis, or this process' own memory. */
export type Coordination =
  | (Shared & { readonly kind: 'redis'; readonly redis: RedisConnection })
  | (Shared & { readonly kind: 'memory'; readonly store: MemoryStore });

/** The injection token of `Coordination`. */
export const COORDINATION = Symbol('Coordination');

/** @throws UnavailableError when Redis cannot be reached in time; Error when it may evict keys and that is refused */
export async function openRedisCoordination(
  options: RedisConnectionOptions & { prefix: string },
  clock: Clock,
  randomness: Randomness,
): Promise<Coordination> {
  const redis = await RedisConnection.open(options, clock, randomness);
  return {
    kind: 'redis',
    prefix: options.prefix,
    redis,
    channels: new RedisChannels(redis, clock),
    onReconnected: (listener) => redis.onReconnected(listener),
    close: () => redis.close(),
  };
}

/** Pods simulated in one process share `store`. It starts empty, as Redis does after a flush. */
export function memoryCoordination(prefix: string, clock: Clock, store = new MemoryStore(clock)): Coordination {
  return {
    kind: 'memory',
    prefix,
    store,
    channels: new MemoryChannels(store),
    onReconnected: () => undefined,
    close: () => Promise.resolve(),
  };
}
