import { describe, expect, test } from '@jest/globals';
import { startRedis } from '../../tools/services.mjs';
import { Caller } from '../e2e/harness/caller.js';
import type { Pod } from '../e2e/harness/pod.js';
import { onServers, Stage } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';
import { leasesOf } from './harness/leases.js';

/** Far less than the lease of 30 s, which a pod that dies would cost without presence. */
const SOON_MS = 5_000;
/** A sweep that finds nothing in the time of a test: what goes on, goes on because somebody was missed. */
const NO_SWEEP = { SWEEP_INTERVAL_MS: '60000' };
/** So many looks, far more than a verdict takes, a pod that lives is watched for a wrong guess. */
const PATIENCE = 15;
const WORK = 'say one\nsleep 60000\nsay two';
const caller = new Caller();

const begun = (stage: Stage, turn: string): Promise<unknown> =>
  until(`${turn} is under way`, () => stage.calls().find((call) => call.turn === turn && call.key === 'model:2'));
/** Resolves when `pod` has looked so often from now on: once it has, it has seen whoever is there. */
const looks = async (pod: Pod, count = PATIENCE): Promise<void> => {
  const looked = await pod.watchAt('presence.looked');
  await until(`${pod.name} has looked`, () => looked().length >= count);
};
const attempts = async (pod: Pod, session: string, turn: string): Promise<number> =>
  (await caller.turn(pod, session, turn)).attempts;

describe('a pod that dies without a word', () => {
  test(
    'is missed: its turns go on elsewhere after their last recorded step, long before its leases run out',
    onServers(async (stage) => {
      const [dying] = await stage.start(['dying'], NO_SWEEP);
      for (const at of [1, 2, 3]) await caller.say(dying, `s${at}`, 'say one\nsleep 300\nsay two', `t${at}`);
      const [other] = await stage.start(['other'], NO_SWEEP);
      await caller.say(dying, 's4', WORK, 't4');
      await begun(stage, 't4');
      await looks(other, 2);
      await dying.kill();
      await until('it goes on', async () => (await attempts(other, 's4', 't4')) === 2, SOON_MS);
      const events = await caller.events(other, 's4');
      expect(events.filter(({ type }) => type === 'model.message')).toHaveLength(1);
      expect(stage.calls().filter((call) => call.turn === 't4' && call.key === 'model:1')).toHaveLength(1);
    }),
  );

  test(
    'does not cost the next message of its idle sessions a lease',
    onServers(async (stage) => {
      const [dying] = await stage.start(['dying'], NO_SWEEP);
      await caller.say(dying, 'idle', 'say one', 't1');
      await caller.ended(dying, 'idle', 't1');
      const [other] = await stage.start(['other'], NO_SWEEP);
      const missed = await other.watchAt('presence.dead');
      expect(await leasesOf(stage.place, 'dying')).toEqual(['idle']);
      await looks(other, 2);
      await dying.kill();
      await until('it is missed', () => missed().length === 1, SOON_MS);
      await caller.say(other, 'idle', 'say two', 't2');
      expect(await caller.ended(other, 'idle', 't2', SOON_MS)).toMatchObject({ state: 'completed' });
    }),
  );

  test(
    'and is started again at once under the same POD_ID is two pods: the new one takes nothing for its own',
    onServers(async (stage) => {
      const [first] = await stage.start(['same'], NO_SWEEP);
      await caller.say(first, 's1', WORK, 't1');
      await begun(stage, 't1');
      const [other] = await stage.start(['other'], NO_SWEEP);
      await looks(other, 2);
      await first.kill();
      await stage.start(['same'], NO_SWEEP);
      await until('it goes on', async () => (await attempts(other, 's1', 't1')) === 2, SOON_MS);
      const { owner, ledgerEpoch } = await caller.ownership(other, 's1');
      expect([ledgerEpoch, owner?.epoch]).toEqual([2, 2]);
    }),
  );
});

describe('a pod that lives', () => {
  test(
    'is not missed while it only stands still: its lease decides',
    onServers(async (stage) => {
      const [frozen, other] = await stage.start(['frozen', 'other']);
      const missed = await other.watchAt('presence.dead');
      await caller.say(frozen, 's1', WORK, 't1');
      await begun(stage, 't1');
      await frozen.freeze();
      await looks(other);
      expect(missed()).toEqual([]);
      expect(await leasesOf(stage.place, 'frozen')).toEqual(['s1']);
      frozen.thaw();
      expect(await attempts(other, 's1', 't1')).toBe(1);
    }),
  );

  test('is not missed when its subscription breaks and comes back, nor is anybody after a restart of Redis', async () => {
    const redis = await startRedis();
    const stage = await Stage.onServers({ redisUrl: redis.url });
    try {
      const pods = await stage.start(['a', 'b', 'c']);
      const missed = await Promise.all(pods.map((pod) => pod.watchAt('presence.dead')));
      for (const [at, pod] of pods.entries()) await caller.say(pod, `s${at}`, WORK, `t${at}`);
      for (const at of pods.keys()) await begun(stage, `t${at}`);
      await stage.place.redis.client('KILL', 'TYPE', 'pubsub');
      await Promise.all(pods.map((pod) => looks(pod)));
      await stage.place.redis.client('KILL', 'TYPE', 'normal').catch(() => undefined);
      await Promise.all(pods.map((pod) => looks(pod)));
      expect(missed.flatMap((told) => told())).toEqual([]);
      for (const at of pods.keys()) expect(await attempts(pods[0], `s${at}`, `t${at}`)).toBe(1);
    } finally {
      await stage.end();
      await redis.stop();
    }
  });

  test(
    'says goodbye when it leaves, and nobody misses it',
    onServers(async (stage) => {
      // The third one is there for the other to look at when the first has left.
      const [leaving, other] = await stage.start(['leaving', 'other', 'third']);
      const missed = await other.watchAt('presence.dead');
      await looks(other, 2);
      expect(await leaving.terminate()).toMatchObject({ code: 0 });
      await looks(other);
      expect(missed()).toEqual([]);
    }),
  );
});
