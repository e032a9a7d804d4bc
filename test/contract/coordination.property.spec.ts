import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { KeyNames, partitionOf, podName, type SessionKey, type TerminalState, type TurnState } from '#protocol';
import { hear, type Nouns, openMemoryNouns, openRedisNouns, ownerOf, sessionOf } from './coordinations.js';

const first = sessionOf(1);
const SESSIONS = [first, sessionOf(2, first), sessionOf(3)];
const PARTITIONS_USED = [...new Set(SESSIONS.map(partitionOf))];
const PODS = ['a', 'b'];
const TURNS = ['t1', 't2', 't3'];

const session = fc.constantFrom(...SESSIONS);
/** What one renewal may be asked for. */
const samePartition = fc.oneof(
  ...PARTITIONS_USED.map((of) => fc.subarray(SESSIONS.filter((s) => partitionOf(s) === of))),
);
const owner = fc.record({ pod: fc.constantFrom(...PODS), epoch: fc.integer({ min: 1, max: 3 }) });
const ref = fc.record({ turnId: fc.constantFrom(...TURNS), generation: fc.integer({ min: 1, max: 2 }) });
const nonce = fc.constantFrom('n1', 'n2');
const state = fc.constantFrom<TurnState>('queued', 'running', 'stop_requested', 'stopped', 'completed', 'failed');
const end = fc.constantFrom<TerminalState | null>('stopped', 'completed', 'failed', null);
const manner = fc.constantFrom('idle' as const, 'leave' as const, 'back_off' as const);

/** One call, or one thing that happens behind the nouns' back; what it answers. */
type Command = (nouns: Nouns) => Promise<unknown>;

function named(name: string, args: unknown, run: Command): Command {
  return Object.assign(run, { toString: () => `${name} ${JSON.stringify(args)}` });
}

const commands = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(session, owner)
      .map((args) => named('acquire', args, (n) => n.locks.acquire(args[0], ownerOf(args[1].pod, args[1].epoch)))),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(samePartition, owner)
      .map((args) =>
        named('renew', args, (n) =>
          n.locks.renew(args[0].map((held) => ({ session: held, owner: ownerOf(args[1].pod, args[1].epoch) }))),
        ),
      ),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(session, owner, manner)
      .map((args) =>
        named('release', args, (n) => n.locks.release(args[0], ownerOf(args[1].pod, args[1].epoch), args[2])),
      ),
  },
  {
    weight: 4,
    arbitrary: fc
      .tuple(session, ref)
      .map((args) =>
        named('enqueue', args, (n) => n.queue.enqueue(args[0], args[1], { initiator: 'ann', parent: null })),
      ),
  },
  {
    weight: 4,
    arbitrary: fc
      .tuple(session, owner)
      .map((args) => named('take', args, (n) => n.queue.take(args[0], ownerOf(args[1].pod, args[1].epoch)))),
  },
  {
    weight: 3,
    arbitrary: fc
      .tuple(session, owner, ref, end)
      .map((args) =>
        named('complete', args, (n) =>
          n.queue.complete(args[0], ownerOf(args[1].pod, args[1].epoch), args[2], args[3]),
        ),
      ),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(session, owner, fc.array(ref, { maxLength: 4 }))
      .map((args) =>
        named('restore as owner', args, (n) => n.queue.restore(args[0], ownerOf(args[1].pod, args[1].epoch), args[2])),
      ),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(session, nonce, fc.array(ref, { maxLength: 4 }))
      .map((args) => named('restore as filler', args, (n) => n.queue.restore(args[0], { nonce: args[1] }, args[2]))),
  },
  {
    weight: 3,
    arbitrary: fc.tuple(session, ref, state).map((args) => named('advance', args, (n) => n.records.advance(...args))),
  },
  {
    weight: 2,
    arbitrary: nonce.map((by) => named('begin filling', by, (n) => n.marks.beginFilling(PARTITIONS_USED, by))),
  },
  {
    weight: 2,
    arbitrary: nonce.map((by) => named('keep filling', by, (n) => n.marks.keepFilling(PARTITIONS_USED, by))),
  },
  {
    weight: 3,
    arbitrary: nonce.map((by) => named('finish filling', by, (n) => n.marks.finishFilling(PARTITIONS_USED, by))),
  },
  { weight: 1, arbitrary: session.map((of) => named('the partition is intact', of, (n) => n.mark(of, 'yes'))) },
  { weight: 1, arbitrary: session.map((of) => named('the lease runs out', of, (n) => n.expireLock(of))) },
  { weight: 1, arbitrary: fc.constant(named('flush', null, (n) => n.flush())) },
);

/** What says when made again that there was nothing left to do: who asks is told to expect it. */
const ANSWERS_OTHERWISE = /^(release|advance|finish filling)/;

/** All that can be seen of the nouns, but for times. */
async function view(nouns: Nouns): Promise<unknown> {
  const refs = TURNS.flatMap((turnId) => [1, 2].map((generation) => ({ turnId, generation })));
  const asked = SESSIONS.flatMap((of) => refs.map((turn) => ({ session: of, ref: turn })));
  const names = (await nouns.queue.ready(10)).map((ready) => ready.session.sessionId);
  return {
    owners: await nouns.locks.owners(SESSIONS),
    lists: await Promise.all(SESSIONS.map((of) => nouns.queue.lists(of))),
    present: await nouns.queue.present(asked),
    ready: names.sort(),
    records: await Promise.all(SESSIONS.flatMap((of) => TURNS.map((turnId) => nouns.record(of, turnId)))),
    marks: (await nouns.marks.states()).filter((_, partition) => PARTITIONS_USED.includes(partition)),
  };
}

describe('redis and memory', () => {
  let redis: Nouns;
  let memory: Nouns;
  let ears: { heard(): Promise<string[]> }[][];

  beforeAll(async () => {
    [redis, memory] = [await openRedisNouns(), await openMemoryNouns()];
    ears = await Promise.all(
      [redis, memory].map((nouns) => {
        const pods = PODS.map((pod) => nouns.keys.podChannel(podName(ownerOf(pod, 1))));
        return Promise.all([nouns.keys.podsChannel(), ...pods].map((channel) => hear(nouns, channel)));
      }),
    );
  });
  afterAll(async () => {
    await redis.close();
    await memory.close();
  });

  it('give the same answers to the same calls, say the same, and end up the same', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(commands, { maxLength: 30 }), async (sequence) => {
        await Promise.all([redis.flush(), memory.flush()]);
        for (const command of sequence) {
          const [fromRedis, fromMemory] = [await command(redis), await command(memory)];
          expect(fromRedis).toEqual(fromMemory);
        }
        expect(await view(redis)).toEqual(await view(memory));
        const [byRedis, byMemory] = await Promise.all(
          ears.map((channels) => Promise.all(channels.map((ear) => ear.heard()))),
        );
        expect(byRedis).toEqual(byMemory);
      }),
      { numRuns: 2_000 },
    );
  }, 180_000);

  it('stay as they are when a call is made again, its reply having been lost', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(commands, { minLength: 1, maxLength: 20 }), async (sequence) => {
        const last = sequence.at(-1)!;
        for (const nouns of [redis, memory]) {
          await nouns.flush();
          let answer: unknown;
          for (const command of sequence) answer = await command(nouns);
          const before = await view(nouns);
          const again = await last(nouns);
          if (!ANSWERS_OTHERWISE.test(String(last))) expect(again).toEqual(answer);
          expect(await view(nouns)).toEqual(before);
        }
      }),
      { numRuns: 500 },
    );
  }, 120_000);
});

describe('key names', () => {
  const id = fc.stringMatching(/^[A-Za-z0-9._~-]{1,12}$/);
  const key = fc.record({ account: id, sessionId: id });
  const keys = new KeyNames('butler:');
  const keysOf = (of: SessionKey): string[] => [
    ...[keys.lock(of), keys.pending(of), keys.processing(of), keys.liveChannel(of), keys.turn(of, of.sessionId)],
  ];

  it('of two sessions never collide, nor do two of one session', () => {
    fc.assert(
      fc.property(key, key, (one, other) => {
        fc.pre(one.account !== other.account || one.sessionId !== other.sessionId);
        const all = [...keysOf(one), ...keysOf(other), keys.ready(1), keys.intact(1), keys.reconciling(1)];
        expect(new Set(all).size).toBe(all.length);
      }),
      { numRuns: 5_000 },
    );
  });

  it('of one session all carry the tag of its partition', () => {
    fc.assert(
      fc.property(key, id, (of, turnId) => {
        const inSlot = [keys.lock(of), keys.pending(of), keys.processing(of), keys.turn(of, turnId)];
        const tags = new Set([...inSlot, keys.ready(partitionOf(of)), keys.intact(partitionOf(of))].map(tagOf));
        expect(tags.size).toBe(1);
      }),
    );
  });
});

function tagOf(key: string): string | undefined {
  return /\{(\d{3})\}/.exec(key)?.[1];
}
