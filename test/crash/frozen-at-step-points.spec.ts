import { hrtime } from 'node:process';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Event, KeyNames } from '#protocol';
import { Caller } from '../e2e/harness/caller.js';
import type { ServersPlace } from '../e2e/harness/places.js';
import type { Hold, Pod } from '../e2e/harness/pod.js';
import type { Facts } from '../e2e/harness/pod-orders.js';
import type { ScriptCall } from '../e2e/harness/script-calls.js';
import { Stage } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';
import { sessionFaults } from './harness/session-faults.js';
import { type StepPointCase, stepPointCases, work } from './harness/step-point-cases.js';

const SETTINGS = { LEASE_TTL_MS: '3000', LEASE_RENEW_MS: '1000', SWEEP_INTERVAL_MS: '500' };
const REFUSALS = ['append.refused', 'finish.refused'];
const LIMIT_MS = 60_000;
const caller = new Caller();
const cases = stepPointCases(caller.account);

// One process is held at every step point at once, one session each, and stopped. Another one takes all of them over.
// Then it is let go on at all points and continued: what it was told while it stood still comes first when it wakes.
describe('a pod that was frozen until another one had taken over and gone on', () => {
  let stage: Stage<ServersPlace>;
  let frozen: Pod;
  let next: Pod;
  let wokenNs: bigint;
  let refusals: Map<string, () => Facts[]>;
  let ownersAfter: Map<string, string | undefined>;

  beforeAll(async () => {
    stage = await Stage.onServers();
    await stage.watch(play);
  }, LIMIT_MS * 2);

  afterAll(() => stage.end());

  async function play(): Promise<void> {
    [frozen] = await stage.start(['frozen'], { ...SETTINGS, ACTOR_IDLE_MS: '0' });
    refusals = new Map(await Promise.all(REFUSALS.map(async (at) => [at, await frozen.watchAt(at)] as const)));
    const holds = await Promise.all(cases.map(holdOwner));
    [next] = await stage.start(['next'], SETTINGS);
    const atWork = await holdNext();
    await frozen.freeze();
    await Promise.all(cases.map((each) => caller.say(next, each.turnId, 'say more', `${each.turnId}.2`)));
    await Promise.all(atWork.map((hold) => hold.reached(LIMIT_MS)));
    await Promise.all(done().map((each) => caller.ended(next, each.turnId, `${each.turnId}.2`, LIMIT_MS)));

    const released = holds.map((hold) => hold.release());
    wokenNs = hrtime.bigint();
    frozen.thaw();
    await Promise.all(released);
    await until('it has let go of every session', async () => {
      const { active, idle } = (await frozen.look()).actors;
      return active + idle === 0;
    });
    ownersAfter = new Map(await Promise.all(cases.map(async (each) => [each.turnId, await ownerOf(each)] as const)));
    await Promise.all(atWork.map((hold) => hold.release()));
    await Promise.all(cases.map((each) => caller.ended(next, each.turnId, `${each.turnId}.2`, LIMIT_MS)));
  }

  /** Posts the case's message and resolves when its owner stands at the point. */
  async function holdOwner(each: StepPointCase): Promise<Hold> {
    if (each.point === 'actor.leaving') return holdLeaving(each);
    const hold = await frozen.holdAt(each.point, each.where);
    await caller.say(frozen, each.turnId, work(each.turnId), each.turnId);
    await hold.reached();
    return hold;
  }

  /** It leaves because Redis has forgotten its lock. */
  async function holdLeaving(each: StepPointCase): Promise<Hold> {
    const taking = await frozen.holdAt('actor.taking', each.where);
    const leaving = await frozen.holdAt(each.point, each.where);
    await caller.say(frozen, each.turnId, work(each.turnId), each.turnId);
    await taking.reached();
    await stage.place.redis.del(new KeyNames(stage.place.keyPrefix).lock(each.session));
    await taking.release();
    await leaving.reached();
    return leaving;
  }

  /** The next owner is not to end the turn that it has taken over, or the one behind it if that one has ended already. */
  function holdNext(): Promise<Hold[]> {
    const atWork = cases.filter((each) => each.next === 'at work');
    return Promise.all(
      atWork.map(async ({ turnId }) => {
        const hold = await next.holdAt('finish.before', { turnId });
        const { state } = await caller.turn(next, turnId, turnId);
        return state === 'completed' ? next.holdAt('finish.before', { turnId: `${turnId}.2` }) : hold;
      }),
    );
  }

  const done = (): StepPointCase[] => cases.filter((each) => each.next === 'done');

  async function ownerOf(each: StepPointCase): Promise<string | undefined> {
    return (await caller.ownership(next, each.turnId)).owner?.podId;
  }

  const begunAfterwards = (each: StepPointCase): ScriptCall[] =>
    stage.calls().filter((call) => call.session === each.turnId && call.pod === frozen.name && call.startNs > wokenNs);
  const refusedAt = (each: StepPointCase): string[] =>
    REFUSALS.filter((at) => refusals.get(at)!().some((facts) => facts.turnId === each.turnId));
  const ofType = (events: readonly Event[], type: Event['type']): Event[] =>
    events.filter((event) => event.type === type);

  describe.each(cases.map((each) => [each.point, each.next, each] as const))('at %s, the next owner %s', (...named) => {
    const [, , each] = named;

    test(`begins ${each.goesOut ? 'only what was checked before, once' : 'nothing'} when it wakes`, () => {
      const begun = begunAfterwards(each).map((call) => [call.key, call.attempt]);
      expect(begun).toEqual(each.goesOut ? [[each.goesOut, 1]] : []);
    });

    test(`writes nothing${each.refusedAt ? ': the ledger refuses it' : ''}, and the turn ends exactly once`, async () => {
      const events = await caller.events(next, each.turnId);
      expect(sessionFaults(events)).toEqual([]);
      expect(ofType(events, 'turn.completed').map((event) => event.turnId)).toEqual([each.turnId, `${each.turnId}.2`]);
      expect(ofType(events, 'turn.failed')).toEqual([]);
      expect(ofType(events, 'turn.yielded')).toEqual([]);
      expect(refusedAt(each)).toEqual(each.refusedAt ? [each.refusedAt] : []);
    });

    test('leaves the lease to the next owner', () => {
      expect(ownersAfter.get(each.turnId)).toBe(next.name);
    });
  });

  test.each(cases.filter((each) => each.goesOut?.startsWith('tool:')).map((each) => [each.next, each] as const))(
    'at tool.checked, the next owner %s: the call that goes out has the same key and the older epoch, and its result is refused',
    async (_next, each) => {
      const lines = stage.lines(each.turnId).map((line) => line.split(' ').slice(0, 6));
      expect(lines).toEqual([
        [next.name, each.turnId, '1', '2', '2', 'model-2-1'],
        [frozen.name, each.turnId, '1', '1', '1', 'model-2-1'],
      ]);
      expect(ofType(await caller.events(next, each.turnId), 'tool.result')).toHaveLength(1);
    },
  );
});
