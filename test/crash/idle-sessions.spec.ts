import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { PARTITIONS } from '#protocol';
import { type Service, startRedis } from '../../tools/services.mjs';
import { Caller } from '../e2e/harness/caller.js';
import type { ServersPlace } from '../e2e/harness/places.js';
import type { Pod } from '../e2e/harness/pod.js';
import type { PodState } from '../e2e/harness/pod-orders.js';
import { Stage } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';
import { Clients } from './harness/client.js';
import { callsBetween, type CommandCounts, commandCounts, keyKinds, podConnections } from './harness/redis-counts.js';

const SESSIONS = 10_000;
const AT_ONCE = 100;
const SETTINGS = {
  ACTOR_IDLE_MS: '3600000',
  ACTOR_MAX_ACTIVE: '1000',
  LEASE_TTL_MS: '30000',
  LEASE_RENEW_MS: '3000',
  SWEEP_INTERVAL_MS: '1000',
  LOG_LEVEL: 'warn',
};
const RENEWALS = 2;
/** Of one look at all partitions: the index; the mark, twice; the turn at it, a script that reads and sets. */
const COMMANDS_PER_SWEEP = PARTITIONS * (1 + 2 + 3);
/** Two timers, and each may have been in the middle at either end of what is measured. */
const SWEEPS_CUT = 3;
/** What else may happen meanwhile: heartbeats, this test's own questions. */
const OTHERS = 100;
const LIMIT_MS = 120_000;
const caller = new Caller();

describe('10,000 idle sessions on one pod', () => {
  let redis: Service;
  let stage: Stage<ServersPlace>;
  let pod: Pod;
  let before: { state: PodState; connections: number };

  beforeAll(async () => {
    redis = await startRedis();
    stage = await Stage.onServers({ redisUrl: redis.url });
    await stage.watch(async () => {
      [pod] = await stage.start(['pod'], SETTINGS);
      before = { state: await quietest(pod), connections: await podConnections(stage.place.redis) };
      const sessions = Array.from({ length: SESSIONS }, (_, at) => `s${at}`);
      const messages = sessions.map((session) => ({ session, turnId: session, content: 'say hello' }));
      await new Clients(caller, [pod], () => 0).sayAll(messages, AT_ONCE);
      await until('all sessions are idle', async () => (await pod.look()).actors.idle === SESSIONS, LIMIT_MS);
    });
  }, LIMIT_MS * 2);

  afterAll(async () => {
    await stage.end();
    await redis.stop();
  });

  test('take no connection to Redis and no timer but the two that renew all leases', async () => {
    expect(before.connections).toBe(2);
    expect(await podConnections(stage.place.redis)).toBe(2);
    const timers = timersOf(before.state) + 2;
    await until('no more timers than that', async () => timersOf(await pod.look()) <= timers);
    expect(await keyKinds(stage.place.redis, stage.place.keyPrefix)).toMatchObject({ lock: SESSIONS, turn: SESSIONS });
  });

  test('cause no command to Redis but their renewals, batched by partition', async () => {
    const first = await commandCounts(stage.place.redis);
    const last = await until('some renewals', async () => {
      const now = await commandCounts(stage.place.redis);
      return callsBetween(first, now)('pexpire') >= RENEWALS * SESSIONS && now;
    });
    const calls = callsBetween(first, last);
    const renewed = calls('pexpire');
    const renewals = Math.ceil(renewed / SESSIONS) + 1;
    const sweeps = Math.ceil(calls('zrange') / PARTITIONS) + SWEEPS_CUT;
    expect(calls('evalsha')).toBeLessThanOrEqual(PARTITIONS * (renewals + sweeps) + OTHERS);
    // A renewal reads each lock and pushes its expiry out, inside the script.
    const others = total(first, last) - 2 * renewed;
    expect(others).toBeLessThanOrEqual(PARTITIONS * renewals + COMMANDS_PER_SWEEP * sweeps + OTHERS);
  });

  test(
    'leave nothing behind after ACTOR_IDLE_MS but the records of their turns',
    async () => {
      await pod.setIdle(0);
      await until(
        'all are off duty',
        async () => {
          const { active, idle } = (await pod.look()).actors;
          return active + idle === 0;
        },
        LIMIT_MS,
      );
      await until('no timer but the pod’s own', async () => timersOf(await pod.look()) <= timersOf(before.state));
      const { intact, reconciling, ...left } = await keyKinds(stage.place.redis, stage.place.keyPrefix);
      expect(left).toEqual({ turn: SESSIONS });
      expect(intact).toBe(PARTITIONS);
      expect(reconciling ?? 0).toBeLessThanOrEqual(PARTITIONS);
      expect(await podConnections(stage.place.redis)).toBe(2);
    },
    LIMIT_MS,
  );
});

/** Of some looks, the one with the fewest timers: some are there for a moment only. */
async function quietest(pod: Pod): Promise<PodState> {
  let quietest = await pod.look();
  for (let looks = 0; looks < 10; looks++) {
    const state = await pod.look();
    if (timersOf(state) < timersOf(quietest)) quietest = state;
  }
  return quietest;
}

function timersOf({ resources }: PodState): number {
  return resources['Timeout'] ?? 0;
}

function total(first: CommandCounts, last: CommandCounts): number {
  const calls = callsBetween(first, last);
  let sum = 0;
  for (const name of last.keys()) sum += calls(name);
  return sum;
}
