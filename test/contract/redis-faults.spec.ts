import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { PARTITIONS, podName } from '#protocol';
import {
  type Coordination,
  openRedisCoordination,
  RedisConnection,
  SystemClock,
  SystemRandomness,
  type Timer,
  UnavailableError,
} from '#platform';
import { batchesByPartition } from '#session-lock';
import { startRedis } from '../../tools/services.mjs';
import { BrokenWire } from '../wire/broken-wire.js';
import { hear, type Nouns, ownerOf, redisNouns, sessionOf } from './coordinations.js';

type RedisServer = Awaited<ReturnType<typeof startRedis>>;
type RedisCoordination = Extract<Coordination, { kind: 'redis' }>;

const session = sessionOf(1);
const a1 = ownerOf('a', 1);
const ref = { turnId: 't1', generation: 1 };
const facts = { initiator: 'ann', parent: null };
const clock = new SystemClock();
const randomness = new SystemRandomness();
const options = { prefix: 'butler:', startTimeoutMs: 5_000, onEviction: 'refuse', onWarning: () => undefined } as const;

/** Beats fifty times as fast. */
class HurriedClock extends SystemClock {
  override every(ms: number, run: () => void): Timer {
    return super.every(ms / 50, run);
  }
}

async function open(url: string, by = clock): Promise<RedisCoordination> {
  const coordination = await openRedisCoordination({ ...options, url }, by, randomness);
  if (coordination.kind !== 'redis') throw new Error('not Redis');
  return coordination;
}

async function timed(call: Promise<unknown>): Promise<{ error: unknown; tookMs: number }> {
  const sinceMs = clock.monotonicMs();
  const error = await call.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  return { error, tookMs: clock.monotonicMs() - sinceMs };
}

/** Resolves when `look` is true; the test's own limit ends the wait. */
async function until(look: () => boolean): Promise<void> {
  while (!look()) await clock.sleep(5);
}

describe('a Redis that fails', () => {
  let server: RedisServer;
  let wire: BrokenWire;
  /** An own connection, to do things behind the pods' back. */
  let aside: RedisConnection;
  let coordination: RedisCoordination;
  let nouns: Nouns;

  const admin = (...words: [string, ...string[]]): Promise<unknown> =>
    aside.run((redis) => redis.call(...words) as Promise<unknown>);

  beforeAll(async () => {
    server = await startRedis();
    wire = await BrokenWire.to(server.port);
  });
  beforeEach(async () => {
    aside = await RedisConnection.open({ ...options, url: server.url }, clock, randomness);
    await admin('FLUSHALL');
    coordination = await open(wire.url);
    nouns = redisNouns(coordination);
    await nouns.mark(session, 'yes');
  });
  afterEach(async () => {
    await coordination.close();
    await aside.close();
  });
  afterAll(async () => {
    await wire.close();
    await server.stop();
  });

  /** Every script once, and what it answers. The line begins with t1 queued, the lease with a1. */
  const CALLS: [string, (n: Nouns) => Promise<unknown>, unknown, unknown?][] = [
    ['acquire', (n) => n.locks.acquire(session, a1), { kind: 'acquired' }],
    ['renew', (n) => n.locks.renew([{ session, owner: a1 }]), [true]],
    ['enqueue', (n) => n.queue.enqueue(session, { ...ref, turnId: 't2' }, facts), { kind: 'queued', owner: a1 }],
    ['take', (n) => n.queue.take(session, a1), { kind: 'taken', ref }],
    ['complete', (n) => n.queue.complete(session, a1, ref, 'completed'), { kind: 'empty' }],
    ['restore', (n) => n.queue.restore(session, a1, [ref]), 'restored'],
    ['lists', (n) => n.queue.lists(session), { pending: [ref], processing: null }],
    ['present', (n) => n.queue.present([{ session, ref }]), [true]],
    ['record', (n) => n.records.advance(session, ref, 'running'), true, false],
    ['begin filling', (n) => n.marks.beginFilling([0], 'n1'), [0]],
    ['keep filling', (n) => n.marks.keepFilling([1], 'n1'), [1]],
    ['finish filling', (n) => n.marks.finishFilling([1], 'n1'), [1], []],
    ['claim reconciling', (n) => n.marks.claimReconciling([0], 'n1', 1_000), [0]],
    ['release and keep', (n) => n.locks.release(session, a1, 'idle'), 'work'],
    ['release', (n) => n.locks.release(session, a1, 'leave'), 'released', 'not_owner'],
  ];

  const prepare = async (): Promise<void> => {
    await nouns.locks.acquire(session, a1);
    await nouns.queue.enqueue(session, ref, facts);
    await nouns.marks.beginFilling([1], 'n1');
  };

  it.each(CALLS)('has forgotten its scripts: %s is sent again', async (_, call, answer) => {
    await prepare();
    await admin('SCRIPT', 'FLUSH');
    expect(await call(nouns)).toEqual(answer);
    await admin('SCRIPT', 'FLUSH');
    await admin('SCRIPT', 'FLUSH');
  });

  it('has forgotten its scripts: many calls at once are all sent again', async () => {
    const held = Array.from({ length: 300 }, (_, nth) => sessionOf(nth));
    for (const one of held) await nouns.mark(one, 'yes');
    await Promise.all(held.map((one) => nouns.locks.acquire(one, a1)));
    const batches = batchesByPartition(held.map((one) => ({ session: one, owner: a1 })));
    const renewAll = (): Promise<boolean[][]> => Promise.all(batches.map((batch) => nouns.locks.renew(batch)));
    await renewAll();
    await admin('SCRIPT', 'FLUSH');
    const [renewed, taken] = await Promise.all([renewAll(), Promise.all(held.map((one) => nouns.queue.take(one, a1)))]);
    expect(new Set(renewed.flat())).toEqual(new Set([true]));
    expect(taken.every(({ kind }) => kind === 'empty')).toBe(true);
  });

  it.each(CALLS)('loses the reply and the connection: %s is asked again and answered alike', async (...given) => {
    const [, call, answer, again = answer] = given;
    await prepare();
    wire.loseNextReply();
    expect(await call(nouns)).toEqual(again);
  });

  it('cuts the connection with many calls under way: each is answered', async () => {
    await prepare();
    const turns = Array.from({ length: 500 }, (_, nth) => ({ turnId: `u${nth}`, generation: 1 }));
    const calls = turns.map((turn) => nouns.queue.enqueue(session, turn, facts));
    await admin('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    const answers = await Promise.all(calls);
    expect(answers.every(({ kind }) => kind === 'queued')).toBe(true);
    expect((await nouns.queue.lists(session)).pending).toEqual([ref, ...turns]);
  });

  it('restarts empty: nobody acquires before it is filled, and living owners get their locks back', async () => {
    await prepare();
    const reconnected = new Promise<void>((resolve) => coordination.onReconnected(resolve));
    await server.stop();
    server = await startRedis({ port: server.port });
    await reconnected;
    expect(await nouns.locks.acquire(session, ownerOf('b', 2))).toEqual({ kind: 'not_intact' });
    expect(await nouns.locks.renew([{ session, owner: a1 }])).toEqual([true]);
    expect(await nouns.locks.owners([session])).toEqual([a1]);
    expect((await nouns.marks.states()).every((state) => state === 'lost')).toBe(true);
  });

  it('is away: calls fail at once, publishing does not, and all works again when it is back', async () => {
    const pod = await hear(nouns, nouns.keys.podChannel(podName(a1)));
    let resubscribed = 0;
    coordination.channels.onResubscribed(() => resubscribed++);
    await server.stop();
    await until(() => !coordination.redis.ready);
    const first = await timed(nouns.locks.acquire(session, a1));
    expect(first.error).toBeInstanceOf(UnavailableError);
    expect(first.tookMs).toBeLessThan(1_000);
    for (const call of [
      () => nouns.queue.take(session, a1),
      () => nouns.marks.states(),
      () => nouns.locks.holder(session),
    ]) {
      const { error, tookMs } = await timed(call());
      expect(error).toBeInstanceOf(UnavailableError);
      expect(tookMs).toBeLessThan(50);
    }
    expect(await coordination.redis.ping(100)).toBe(false);
    await nouns.channels.publish(nouns.keys.podsChannel(), 'nobody hears this');

    server = await startRedis({ port: server.port });
    await until(() => coordination.redis.ready && resubscribed > 0);
    await nouns.channels.publish(nouns.keys.podChannel(podName(a1)), 'hello');
    expect(await pod.heard()).toEqual(['hello']);
    expect(await nouns.locks.acquire(session, a1)).toEqual({ kind: 'not_intact' });
  }, 20_000);

  it('stands still: calls fail in time, and the next connection serves', async () => {
    process.kill(server.pid, 'SIGSTOP');
    const calls = [timed(nouns.locks.acquire(session, a1)), timed(nouns.marks.states())];
    for (const { error, tookMs } of await Promise.all(calls)) {
      expect(error).toBeInstanceOf(UnavailableError);
      expect(tookMs).toBeLessThan(3_000);
    }
    process.kill(server.pid, 'SIGCONT');
    await until(() => coordination.redis.ready);
    expect(await nouns.marks.states()).toHaveLength(PARTITIONS);
  }, 20_000);

  it('falls silent without closing: a call that it swallowed fails in time, and the next connection serves', async () => {
    wire.goSilent();
    wire.recover();
    const { error, tookMs } = await timed(nouns.locks.acquire(session, a1));
    expect(error).toBeInstanceOf(UnavailableError);
    expect(tookMs).toBeLessThan(3_000);
    expect(await nouns.locks.acquire(session, a1)).toEqual({ kind: 'acquired' });
  }, 20_000);

  it('falls silent without closing: the subscriber notices by itself and subscribes again', async () => {
    const hurried = await open(wire.url, new HurriedClock());
    const heard: string[] = [];
    await hurried.channels.subscribe('pods', (message) => heard.push(message));
    const resubscribed = new Promise<void>((resolve) => hurried.channels.onResubscribed(resolve));
    wire.goSilent();
    wire.recover();
    await resubscribed;
    await aside.run((redis) => redis.publish('pods', 'hello'));
    await until(() => heard.length > 0);
    await hurried.close();
  }, 20_000);

  it('keeps no subscription for a channel that nobody listens to any more', async () => {
    const subscribers = async (): Promise<unknown> => ((await admin('PUBSUB', 'NUMSUB', 'c')) as unknown[])[1];
    const leave = [await coordination.channels.subscribe('c', () => undefined)];
    leave.push(await coordination.channels.subscribe('c', () => undefined));
    expect(await subscribers()).toBe(1);
    leave[0]!();
    // Subscribing again is answered after what was asked before it.
    await coordination.channels.subscribe('d', () => undefined);
    expect(await subscribers()).toBe(1);
    leave[1]!();
    await coordination.channels.subscribe('e', () => undefined);
    expect(await subscribers()).toBe(0);
  });

  it('cuts the subscriber: all channels are subscribed again, and that is told', async () => {
    const ears = await Promise.all(Array.from({ length: 1_200 }, (_, nth) => hear(nouns, `channel ${nth}`)));
    const resubscribed = new Promise<void>((resolve) => coordination.channels.onResubscribed(resolve));
    await admin('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await resubscribed;
    for (const at of [0, 1, 600, 1_199]) {
      await aside.run((redis) => redis.publish(`channel ${at}`, 'hello'));
      expect(await ears[at]!.heard()).toEqual(['hello']);
    }
  });

  it('has become a replica, or is full: that is unavailable, not a fault', async () => {
    await admin('REPLICAOF', '127.0.0.1', '1');
    expect((await timed(nouns.queue.enqueue(session, ref, facts))).error).toBeInstanceOf(UnavailableError);
    await admin('REPLICAOF', 'NO', 'ONE');
    await admin('CONFIG', 'SET', 'maxmemory', '1');
    expect((await timed(nouns.queue.enqueue(session, ref, facts))).error).toBeInstanceOf(UnavailableError);
    await admin('CONFIG', 'SET', 'maxmemory', '0');
    await until(() => coordination.redis.ready);
    expect(await nouns.queue.enqueue(session, ref, facts)).toMatchObject({ kind: 'queued' });
  });

  it('answers that something of ours is wrong: that is a fault, not unavailable', async () => {
    await admin('SET', nouns.keys.pending(session), 'no list');
    const { error } = await timed(nouns.queue.enqueue(session, ref, facts));
    expect(error).not.toBeInstanceOf(UnavailableError);
    expect(String(error)).toContain('WRONGTYPE');
  });

  it('is closed in bounded time, whether it answers or not, and is closed for good', async () => {
    expect((await timed(coordination.close())).tookMs).toBeLessThan(500);
    expect((await timed(nouns.locks.holder(session))).error).toBeInstanceOf(UnavailableError);

    const other = await open(server.url);
    process.kill(server.pid, 'SIGSTOP');
    expect((await timed(other.close())).tookMs).toBeLessThan(1_500);
    process.kill(server.pid, 'SIGCONT');

    const third = await open(server.url);
    await server.stop();
    await until(() => !third.redis.ready);
    expect((await timed(third.close())).tookMs).toBeLessThan(1_500);
    server = await startRedis({ port: server.port });
  }, 20_000);

  it('is not there at start: that is told in time', async () => {
    const { error, tookMs } = await timed(
      RedisConnection.open({ ...options, url: 'redis://127.0.0.1:1', startTimeoutMs: 300 }, clock, randomness),
    );
    expect(error).toBeInstanceOf(UnavailableError);
    expect(String(error)).toContain('ECONNREFUSED');
    expect(tookMs).toBeLessThan(2_000);
  });

  it('may evict keys: it is refused, or a warning is given', async () => {
    await admin('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    const warnings: string[] = [];
    const onWarning = (message: string): void => void warnings.push(message);
    const refused = RedisConnection.open({ ...options, url: server.url, onWarning }, clock, randomness);
    await expect(refused).rejects.toThrow(/allkeys-lru.*noeviction/);
    const warned = await RedisConnection.open(
      { ...options, url: server.url, onEviction: 'warn', onWarning },
      clock,
      randomness,
    );
    expect(warnings).toHaveLength(1);
    await warned.close();
    await admin('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
  });
});
