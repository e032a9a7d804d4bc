import { expect, test } from '@jest/globals';
import { startRedis } from '../../tools/services.mjs';
import { Caller } from './harness/caller.js';
import { onServers, Stage } from './harness/stage.js';
import { until } from './harness/until.js';
import { Watcher } from './harness/watcher.js';

const GRACE_MS = 6000;
/** No sweep: a session is served where it was posted to, and what is handed over is taken because that was said. */
const SETTINGS = { SHUTDOWN_GRACE_MS: String(GRACE_MS), SHUTDOWN_LINGER_MS: '500', SWEEP_INTERVAL_MS: '60000' };
const caller = new Caller();

test(
  'on SIGTERM readiness fails first, the turn goes on at another pod, and the process ends by itself within its grace',
  onServers(async (stage) => {
    const [leaving, other] = await stage.start(['leaving', 'other'], SETTINGS);
    const work = 'tool append {"file":"effects","line":"x"}\nsleep 1500\nsleep 1500\nsay done';
    await caller.say(leaving, 'busy', work, 't1');
    await caller.say(leaving, 'idle', 'say quiet', 'u1');
    await caller.ended(other, 'idle', 'u1');
    await until('the turn is under way', () =>
      stage.calls().some((call) => call.turn === 't1' && call.key === 'model:2'),
    );
    expect((await fetch(`${leaving.url}/health/ready`)).status).toBe(200);

    const gone = leaving.terminate();
    await until('readiness fails', async () => (await fetch(`${leaving.url}/health/ready`)).status === 503);
    expect((await fetch(`${leaving.url}/health/live`)).status).toBe(200);
    const late = await caller.post(leaving, 'late', { turnId: 'v1', content: 'say late' });
    expect([202, 503]).toContain(late.status);

    const { code, tookMs } = await gone;
    expect([code, tookMs < GRACE_MS]).toEqual([0, true]);
    // The lease time is 30 s: had they not been given back, they would still stand.
    const locks = await stage.place.redis.keys(`${stage.place.keyPrefix}*lock*`);
    const owners = await Promise.all(locks.map((key) => stage.place.redis.get(key)));
    expect(owners.filter((owner) => owner?.startsWith('leaving'))).toEqual([]);

    expect(await caller.ended(other, 'busy', 't1')).toMatchObject({ state: 'completed', generation: 1, stop: null });
    const events = await caller.events(other, 'busy');
    const life = events.filter((event) => event.type.startsWith('turn.')).map((event) => event.type);
    expect(life).toEqual(['turn.started', 'turn.yielded', 'turn.resumed', 'turn.completed']);
    expect(events.find((event) => event.type === 'turn.yielded')!.data).toEqual({ reason: 'drain' });
    expect(stage.lines('effects')).toHaveLength(1);
    if (late.status === 202) expect(await caller.ended(other, 'late', 'v1')).toMatchObject({ state: 'completed' });
  }),
);

test(
  'open streams and connections that are kept alive do not hold a pod up',
  onServers(async (stage) => {
    const [leaving, other] = await stage.start(['leaving', 'other'], SETTINGS);
    await caller.say(other, 's1', 'say hello', 't1');
    await caller.ended(other, 's1', 't1');
    const watchers = await Promise.all(Array.from({ length: 20 }, () => Watcher.open(caller, leaving, 's1')));
    const { code, tookMs } = await leaving.terminate();
    expect([code, tookMs < GRACE_MS]).toEqual([0, true]);
    await until('the streams are closed', () => watchers.every((watcher) => watcher.closed));
    for (const watcher of watchers) expect(watcher.hint?.reason).toBe('draining');
  }),
);

test(
  'a turn that does not yield is taken from a pod whose grace ends, and ends completed elsewhere',
  onServers(async (stage) => {
    const [leaving, other] = await stage.start(['leaving', 'other'], { ...SETTINGS, SHUTDOWN_GRACE_MS: '2500' });
    await caller.say(leaving, 's1', 'tool sleep {"ms":60000,"deaf":true}\nsay went on', 't1');
    await until('the tool runs', () => stage.calls().some((call) => call.kind === 'tool'));
    const { code, tookMs } = await leaving.terminate();
    expect([code, tookMs < 2500 + 2000]).toEqual([0, true]);
    await until('it goes on', () => stage.calls().some((call) => call.pod === 'other'));
    expect((await caller.turn(other, 's1', 't1')).state).not.toMatch(/stop|failed/);
  }),
);

test('a pod whose Redis is gone still ends on SIGTERM within its grace', async () => {
  const redis = await startRedis();
  const stage = await Stage.onServers({ redisUrl: redis.url });
  try {
    await stage.watch(async () => {
      const [pod] = await stage.start(['pod'], SETTINGS);
      await caller.say(pod, 's1', 'sleep 60000', 't1');
      await until('the turn is under way', () => stage.calls().length === 1);
      await redis.stop();
      const { tookMs, signal } = await pod.terminate();
      expect([signal, tookMs < GRACE_MS]).toEqual([null, true]);
    });
  } finally {
    await stage.end();
    await redis.stop();
  }
});
