import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { sessionFaults } from '../crash/harness/session-faults.js';
import { Caller } from '../e2e/harness/caller.js';
import type { Stage } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';
import { Watcher } from '../e2e/harness/watcher.js';
import { expectUnavailable, timed } from './harness/answers.js';
import { BreakableServers } from './harness/breakable-servers.js';
import { ProbeWatch, readiness } from './harness/probe-watch.js';

const SHORT_LEASE = { LEASE_TTL_MS: '2500', LEASE_RENEW_MS: '500', SWEEP_INTERVAL_MS: '300' };
/** One attempt that counts and gets nowhere is one too many. */
const ONE_ATTEMPT = { TURN_MAX_ATTEMPTS: '1' };
const servers = new BreakableServers();
const caller = new Caller();

beforeAll(() => servers.start());
afterAll(() => servers.stop());

const begun = (stage: Stage, turn: string, key: string): Promise<unknown> =>
  until(`${turn} is at ${key}`, () => stage.calls().some((call) => call.turn === turn && call.key === key));

describe('while Redis is away', () => {
  test(
    'for longer than a lease, steps under way end, none begins, turns leave at their deadline and go on when it is back; stops hold, streams tell, nobody dies',
    servers.play(async (stage) => {
      const pods = await stage.start(['a', 'b'], { ...SHORT_LEASE, ...ONE_ATTEMPT });
      const [a, b] = pods;
      const probes = new ProbeWatch(pods);
      const append = 'tool append {"file":"effects","line":"x"}';
      await caller.say(a, 'steps', `say one\nsleep 900\n${append}\nsay two`, 'steps.1');
      await caller.say(b, 'long', 'sleep 3500\nsay done', 'long.1');
      await caller.say(a, 'stopped', 'sleep 60000', 'stopped.1');
      const early = await Watcher.open(caller, b, 'steps', { after: 0 });
      await begun(stage, 'steps.1', 'model:2');
      await begun(stage, 'long.1', 'model:1');
      await begun(stage, 'stopped.1', 'model:1');
      await servers.redis.kill();

      const refused = await timed(caller.post(a, 'steps', { turnId: 'steps.2', content: 'say more' }));
      expectUnavailable(refused, 'coordination_unavailable');
      expect(refused.tookMs).toBeLessThan(3000);
      const [stop] = await Promise.all([
        timed(caller.stop(b, 'stopped', 'stopped.1')),
        ...pods.map((pod) => readiness(pod, 503)),
      ]);
      expect([stop.status, stop.body]).toEqual([202, expect.objectContaining({ state: 'stop_requested' })]);
      const late = await Watcher.open(caller, a, 'steps', { after: 0 });

      for (const watcher of [early, late]) {
        await until('the step under way is told', () =>
          watcher.events.some((event) => event.type === 'model.message' && event.data.step === 'model:2'),
        );
        expect((await watcher.sees('turn.yielded')).data).toEqual({ reason: 'outage' });
      }
      const away = await caller.events(b, 'long');
      expect(away.at(-1)).toMatchObject({ type: 'turn.yielded', data: { reason: 'outage' } });
      expect((await caller.turn(b, 'stopped', 'stopped.1')).state).toBe('stopped');
      expect(stage.lines('effects')).toEqual([]);

      await servers.redis.restart();
      await Promise.all(pods.map((pod) => readiness(pod, 200)));
      expect((await caller.post(a, 'steps', { turnId: 'steps.2', content: 'say more' })).status).toBe(202);
      for (const [session, turn, attempts] of [
        ['steps', 'steps.1', 2],
        ['steps', 'steps.2', 1],
        ['long', 'long.1', 2],
      ] as const) {
        expect(await caller.ended(b, session, turn)).toMatchObject({ state: 'completed', attempts });
        expect(sessionFaults(await caller.events(b, session))).toEqual([]);
      }
      expect(stage.lines('effects')).toHaveLength(1);
      await late.sees('turn.completed', 'steps.2');
      for (const watcher of [early, late]) {
        await watcher.sees('turn.completed', 'steps.2');
        expect([watcher.closed, watcher.events]).toEqual([false, await caller.events(a, 'steps')]);
        watcher.close();
      }
      expect(await probes.end()).toEqual([]);
      expect(pods.flatMap(({ errors }) => errors)).toEqual([]);
    }),
  );

  test(
    'for less than a lease, no turn leaves: its next step begins when a renewal has answered',
    servers.play(async (stage, wires) => {
      const [pod] = await stage.start(['pod'], { ...wires.settings, LEASE_TTL_MS: '20000', LEASE_RENEW_MS: '500' });
      await caller.say(pod, 's1', 'sleep 600\ntool append {"file":"effects","line":"x"}\nsay done', 't1');
      await begun(stage, 't1', 'model:1');
      wires.redis.refuse();
      wires.redis.cut();
      const watcher = await Watcher.open(caller, pod, 's1', { after: 0 });
      await watcher.sees('model.message');
      const before = await stage.place.rows();
      for (let at = 0; at < 5; at++) {
        expectUnavailable(
          await caller.post(pod, 's1', { turnId: 't2', content: 'say more' }),
          'coordination_unavailable',
        );
      }
      expect(await stage.place.rows()).toEqual(before);
      expect(stage.calls()).toHaveLength(1);

      wires.redis.recover();
      expect(await caller.ended(pod, 's1', 't1')).toMatchObject({ state: 'completed', attempts: 1 });
      expect(stage.lines('effects')).toHaveLength(1);
      expect((await caller.events(pod, 's1')).filter(({ type }) => type === 'owner.changed')).toHaveLength(1);
      watcher.close();
    }),
  );
});
