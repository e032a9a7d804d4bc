import { expect, test } from '@jest/globals';
import { Caller } from '../e2e/harness/caller.js';
import type { ScriptCall } from '../e2e/harness/script-calls.js';
import { onServers } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';
import { repetitions } from './harness/repeated-steps.js';
import { sessionFaults } from './harness/session-faults.js';

const BLOCK_MS = 5000;
const SLEEP_MS = 3000;
/** The blocked pod's lease is far shorter than the block; that of the other pod, which meets the same block, is longer. */
const SHORT_LEASE = { LEASE_TTL_MS: '1000', LEASE_RENEW_MS: '300', SWEEP_INTERVAL_MS: '300' };
const LONG_LEASE = { LEASE_TTL_MS: '20000', LEASE_RENEW_MS: '5000', SWEEP_INTERVAL_MS: '300' };
const LIMIT_MS = 60_000;
const caller = new Caller();

const SLEEPERS = Array.from({ length: 9 }, (_, at) => `sleeper-${at}`);
const SESSIONS = [...SLEEPERS, 'blocker'];
/** Its sleep is over while the loop stands still, so it wants to go on as soon as the loop moves. */
const SLEEP = `say one\nsleep ${SLEEP_MS}\ntool append {"file":"effects","line":"x"}\nsay two`;
const BLOCK = `say one\nblock ${BLOCK_MS}\ntool append {"file":"effects","line":"x"}\nsay two`;

test(
  'a pod whose loop was blocked for longer than its leases distrusts all of its sessions on waking, before any act or write',
  onServers(async (stage) => {
    const begun = (pod: string, session: string): ScriptCall | undefined =>
      stage.calls().find((call) => call.pod === pod && call.turn === session && call.key === 'model:2');
    const [blocked] = await stage.start(['blocked'], SHORT_LEASE);
    await Promise.all(SESSIONS.map((session) => caller.say(blocked, session, 'say warm up', `${session}.0`)));
    await Promise.all(SESSIONS.map((session) => caller.ended(blocked, session, `${session}.0`)));
    const [next] = await stage.start(['next'], LONG_LEASE);
    const nextBlocks = await next.holdAt('step.before', { turnId: 'blocker', step: 'model:2' });
    const checked = await Promise.all(['append.checked', 'finish.checked'].map((at) => blocked.watchAt(at)));

    await Promise.all(SLEEPERS.map((session) => caller.say(blocked, session, SLEEP, session)));
    await until('all of them sleep', () => SLEEPERS.every((session) => begun('blocked', session)));
    await caller.say(blocked, 'blocker', BLOCK, 'blocker');
    await until('the loop is blocked', () => begun('blocked', 'blocker'));
    await until('all are taken over', async () => {
      const owners = await Promise.all(SESSIONS.map((session) => caller.ownership(next, session)));
      return owners.every(({ owner, ledgerEpoch }) => owner?.podId === 'next' && ledgerEpoch === owner.epoch);
    });
    // What follows is about a pod that wakes too late.
    expect(begun('blocked', 'blocker')!.endNs).toBeNull();

    const { endNs: wokenNs } = await until('the loop moves', () => {
      const block = begun('blocked', 'blocker')!;
      return block.endNs !== null && block;
    });
    await until('it has let go of every session', async () => {
      const { active, idle } = (await blocked.look()).actors;
      return active + idle === 0;
    });
    expect(stage.calls().filter((call) => call.pod === 'blocked' && call.startNs > wokenNs!)).toEqual([]);
    // Only what was recorded before the block has passed the last check before a write.
    const writes = checked.flatMap((passages) => passages()).map(({ turnId, types }) => [turnId, types]);
    expect(writes.sort()).toEqual(SESSIONS.map((session) => [session, ['model.message']]).sort());
    await until('the standstill is told', () => lagsIn(blocked.log).some((lagMs) => lagMs > BLOCK_MS / 2));

    await nextBlocks.release();
    for (const session of SESSIONS) {
      expect(await caller.ended(next, session, session, LIMIT_MS)).toMatchObject({ state: 'completed', attempts: 2 });
      const events = await caller.events(next, session);
      expect({ session, faults: sessionFaults(events) }).toEqual({ session, faults: [] });
      expect(events.filter((event) => event.type === 'turn.yielded')).toEqual([]);
      expect(
        repetitions(
          events,
          stage.calls().filter((call) => call.session === session),
        ),
      ).toEqual([]);
    }
    expect(stage.lines('effects').map((line) => line.split(' ')[0])).toEqual(SESSIONS.map(() => 'next'));
  }),
  LIMIT_MS * 2,
);

/** What the pod has told of its loop. */
function lagsIn(log: string): number[] {
  const told = log.split('\n').filter((line) => line.includes('"the event loop stood still"'));
  return told.map((line) => (JSON.parse(line) as { lagMs: number }).lagMs);
}
