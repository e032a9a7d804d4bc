import { randomUUID } from 'node:crypto';
import { KeyNames, partitionOf, type Owner, type SessionKey } from '#protocol';
import {
  type Channels,
  type Coordination,
  memoryCoordination,
  openRedisCoordination,
  SystemClock,
  SystemRandomness,
} from '#platform';
import {
  MemoryMessageQueue,
  MemoryPartitionMarks,
  type MessageQueue,
  type PartitionMarks,
  RedisMessageQueue,
  RedisPartitionMarks,
} from '#message-queue';
import { MemorySessionLocks, RedisSessionLocks, type SessionLocks } from '#session-lock';
import { ManualClock } from '#test-kit';
import { MemoryTurnRecords, RedisTurnRecords, type TurnRecords } from '#turn-lifecycle';

export const TIMES = { leaseTtlMs: 30_000, turnRecordTtlMs: 259_200_000 };

/** All nouns that coordinate, on one kind of coordination, and what a test may do behind their back. */
export interface Nouns {
  locks: SessionLocks;
  queue: MessageQueue;
  marks: PartitionMarks;
  records: TurnRecords;
  channels: Channels;
  keys: KeyNames;
  /** Marks the partition of a session as intact, or otherwise. */
  mark(session: SessionKey, value: string | null): Promise<void>;
  /** Resolves when the clock that the nouns read has gone on. */
  pass(): Promise<void>;
  /** Leaves a key only a second to last. */
  age(key: string): Promise<void>;
  /** Makes the lease of a session run out. */
  expireLock(session: SessionKey): Promise<void>;
  /** A record's fields as they stand. */
  record(session: SessionKey, turnId: string): Promise<Record<string, string>>;
  /** How long a key will last, in ms. */
  ttlMs(key: string): Promise<number | null>;
  /** Forgets everything, as a flush. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** The server for tests; a run without one must not look like a run that passed. */
function testRedisUrl(): string {
  const url = process.env['TEST_REDIS_URL'];
  if (!url) throw new Error('TEST_REDIS_URL names no Redis: run the tests with npm test, or start one and name it');
  return url;
}

export async function openRedisNouns(url = testRedisUrl()): Promise<Nouns> {
  const prefix = `test-${randomUUID()}:`;
  const options = { url, prefix, startTimeoutMs: 5_000, onEviction: 'refuse', onWarning: () => undefined } as const;
  return redisNouns(await openRedisCoordination(options, new SystemClock(), new SystemRandomness()));
}

export function redisNouns(coordination: Coordination): Nouns {
  if (coordination.kind !== 'redis') throw new Error('not Redis');
  const { redis, prefix, channels } = coordination;
  const keys = new KeyNames(prefix);
  const flush = (): Promise<void> =>
    redis.run(async (commands) => {
      for await (const found of commands.scanStream({ match: `${prefix}*`, count: 1000 })) {
        if ((found as string[]).length > 0) await commands.unlink(found as string[]);
      }
    });
  return {
    locks: new RedisSessionLocks(redis, keys, TIMES.leaseTtlMs),
    queue: new RedisMessageQueue(redis, keys, TIMES),
    marks: new RedisPartitionMarks(redis, keys),
    records: new RedisTurnRecords(redis, keys, TIMES.turnRecordTtlMs),
    channels,
    keys,
    mark: async (session, value) => {
      const key = keys.intact(partitionOf(session));
      await redis.run<unknown>((commands) => (value === null ? commands.del(key) : commands.set(key, value)));
    },
    pass: () =>
      redis.run(async (commands) => {
        const sinceMs = serverMs(await commands.time());
        while (serverMs(await commands.time()) === sinceMs);
      }),
    age: async (key) => {
      await redis.run((commands) => commands.pexpire(key, 1_000));
    },
    expireLock: async (session) => {
      await redis.run((commands) => commands.del(keys.lock(session)));
    },
    record: (session, turnId) => redis.run((commands) => commands.hgetall(keys.turn(session, turnId))),
    ttlMs: async (key) => {
      const ttlMs = await redis.run((commands) => commands.pttl(key));
      return ttlMs < 0 ? null : ttlMs;
    },
    flush,
    close: async () => {
      await flush().catch(() => undefined);
      await coordination.close();
    },
  };
}

/** What TIME answers, in whole ms. */
function serverMs([seconds, micros]: (number | string)[]): number {
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

export function openMemoryNouns(): Promise<Nouns> {
  const clock = new ManualClock();
  const coordination = memoryCoordination('test:', clock);
  if (coordination.kind !== 'memory') throw new Error('not memory');
  const { store, channels } = coordination;
  const keys = new KeyNames('test:');
  return Promise.resolve({
    locks: new MemorySessionLocks(store, keys, TIMES.leaseTtlMs),
    queue: new MemoryMessageQueue(store, keys, TIMES, clock),
    marks: new MemoryPartitionMarks(store, keys),
    records: new MemoryTurnRecords(store, keys, TIMES.turnRecordTtlMs),
    channels,
    keys,
    mark: async (session, value) => {
      const key = keys.intact(partitionOf(session));
      if (value === null) store.delete(key);
      else store.set(key, value);
    },
    pass: () => clock.advance(1),
    age: async (key) => {
      const value = store.get(key);
      if (value === null) store.setFields(key, {}, 1_000);
      else store.set(key, value, 1_000);
    },
    expireLock: async (session) => store.delete(keys.lock(session)),
    record: async (session, turnId) => Object.fromEntries(store.hash(keys.turn(session, turnId))),
    ttlMs: async (key) => store.ttlMs(key),
    flush: async () => store.clear(),
    close: () => coordination.close(),
  });
}

export const ADAPTERS: [string, () => Promise<Nouns>][] = [
  ['redis', () => openRedisNouns()],
  ['memory', openMemoryNouns],
];

export function ownerOf(podId: string, epoch: number): Owner {
  return { podId, boot: 'b1', epoch };
}

/** Hears what is said on a channel from now on. `heard` answers all of it, up to now. */
export async function hear(nouns: Nouns, channel: string): Promise<{ heard(): Promise<string[]> }> {
  const messages: string[] = [];
  const marker = `marker ${randomUUID()}`;
  let reached: () => void = () => undefined;
  await nouns.channels.subscribe(channel, (message) => {
    if (message === marker) reached();
    else messages.push(message);
  });
  return {
    heard: async () => {
      const arrived = new Promise<void>((resolve) => (reached = resolve));
      await nouns.channels.publish(channel, marker);
      await arrived;
      return messages.splice(0);
    },
  };
}

/** A session named after the number; with `like`, one of the same partition. */
export function sessionOf(number: number, like?: SessionKey): SessionKey {
  for (let suffix = 0; ; suffix++) {
    const session = { account: 'acme', sessionId: `s${number}-${suffix}` };
    if (!like || partitionOf(session) === partitionOf(like)) return session;
  }
}
