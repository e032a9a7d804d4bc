import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Service, startRedis } from '../../tools/services.mjs';
import { repetitions } from '../crash/harness/repeated-steps.js';
import { sessionFaults } from '../crash/harness/session-faults.js';
import { Caller } from '../e2e/harness/caller.js';
import type { ServersPlace } from '../e2e/harness/places.js';
import { Stage } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';

const API = { ROLES: 'api' };
/** Far more than a look at the marks, a refill and an acquire take. */
const SOON_MS = 10_000;
const caller = new Caller();
let redis: Service;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

/** A test on a Redis that it may flush. */
function onOwnRedis(work: (stage: Stage<ServersPlace>) => Promise<void>): () => Promise<void> {
  return async () => {
    const stage = await Stage.onServers({ redisUrl: redis.url });
    try {
      await stage.watch(() => work(stage));
    } finally {
      await stage.end();
    }
  };
}

describe('when Redis has lost everything', () => {
  test(
    'and the pod that worked is killed, what had not ended runs, in order and once, and what had ended does not',
    onOwnRedis(async (stage) => {
      const [door] = await stage.start(['door'], API);
      const [dying] = await stage.start(['dying'], { ROLES: 'actors' });
      const work = 'say one\nsleep 1000\nsay two';
      await caller.say(door, 's1', 'say early', 's1.0');
      await caller.ended(door, 's1', 's1.0');
      const waiting: [string, string[]][] = [
        ['s1', ['s1.1', 's1.2']],
        ['s2', ['s2.1', 's2.2']],
        ['s3', ['s3.1']],
      ];
      for (const [session, turns] of waiting) for (const turn of turns) await caller.say(door, session, work, turn);
      const atWork = (turn: string): boolean =>
        stage.calls().some((call) => call.turn === turn && call.key === 'model:2');
      await until('the first of each is at work', () => ['s1.1', 's2.1', 's3.1'].every(atWork));
      await dying.kill();
      await stage.place.redis.flushall();

      const [next] = await stage.start(['next'], { ROLES: 'actors' });
      for (const [session, turns] of waiting) {
        const last = await caller.ended(door, session, turns.at(-1)!, SOON_MS);
        expect(last).toMatchObject({ state: 'completed' });
        const events = await caller.events(door, session);
        expect({ session, faults: sessionFaults(events) }).toEqual({ session, faults: [] });
        expect(
          repetitions(
            events,
            stage.calls().filter((call) => call.session === session),
          ),
        ).toEqual([]);
      }
      expect(stage.calls().filter((call) => call.pod === next.name && call.turn === 's1.0')).toEqual([]);
      for (const turn of ['s1.1', 's2.1', 's3.1']) {
        const again = stage.calls().filter((call) => call.pod === next.name && call.turn === turn);
        expect(again.map(({ key }) => key)).toEqual(['model:2', 'model:3']);
      }
    }),
  );

  test(
    'a turn that was stopped while it waited, or before its message came, stays stopped: no step of it begins',
    onOwnRedis(async (stage) => {
      const [door] = await stage.start(['door'], API);
      await stage.start(['owner'], { ROLES: 'actors' });
      await caller.say(door, 's1', 'sleep 1500', 'busy');
      await until('it is busy', () => stage.calls().length === 1);
      await caller.say(door, 's1', 'say never', 'queued');
      expect((await caller.stop(door, 's1', 'queued')).body).toMatchObject({ state: 'stopped', already: false });
      expect((await caller.stop(door, 's1', 'unborn')).body).toMatchObject({ state: 'stopped', already: false });
      await stage.place.redis.flushall();

      const refused = await caller.post(door, 's1', { turnId: 'unborn', content: 'say never' });
      expect([refused.status, refused.body]).toEqual([409, expect.objectContaining({ code: 'turn_stopped' })]);
      await caller.say(door, 's1', 'say after', 'after');
      expect(await caller.ended(door, 's1', 'after', SOON_MS)).toMatchObject({ state: 'completed' });
      expect(await caller.turn(door, 's1', 'busy')).toMatchObject({ state: 'completed', attempts: 1 });
      expect(stage.calls().map(({ turn }) => turn)).toEqual(['busy', 'after']);
      expect(sessionFaults(await caller.events(door, 's1'))).toEqual([]);
      const { pending, processing } = await caller.ownership(door, 's1');
      expect([pending, processing]).toEqual([[], null]);
    }),
  );
});
