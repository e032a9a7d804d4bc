import { describe, expect, test } from '@jest/globals';
import type { ModelMessage } from '#protocol';
import { modelInputFaults } from '#test-kit';
import { sessionFaults } from '../crash/harness/session-faults.js';
import { Caller } from '../e2e/harness/caller.js';
import { onServers, type Stage } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';
import { Watcher } from '../e2e/harness/watcher.js';

const SHORT_LEASE = { LEASE_TTL_MS: '1500', LEASE_RENEW_MS: '500', SWEEP_INTERVAL_MS: '300' };
const UNMISSED = { ...SHORT_LEASE, PRESENCE_CHECK_MS: '0' };
const caller = new Caller();

const begun = (stage: Stage, turn: string, key: string, pod?: string): Promise<unknown> =>
  until(`${turn} is at ${key}`, () =>
    stage.calls().some((call) => call.turn === turn && call.key === key && (pod === undefined || call.pod === pod)),
  );

describe('a reply that was being said when its pod was killed', () => {
  const WORDS = Array.from({ length: 60 }, (_, at) => `word${at}`).join(' ');

  test(
    'is said once more from its beginning: watchers hear what is void, and no half of it reaches a model',
    onServers(async (stage) => {
      const [dying, other] = await stage.start(['dying', 'other'], SHORT_LEASE);
      await caller.say(dying, 's1', `tool append {"file":"effects","line":"x"}\npace 30\nsay ${WORDS}\nhistory`, 't1');
      const heard = await Watcher.open(caller, other, 's1', { after: 0 });
      const piece = await heard.sees('model.text', 't1');
      expect(piece.data).toMatchObject({ attempt: 1, offset: 0 });
      const { owner } = await caller.ownership(other, 's1');
      const [owning, staying] = owner?.podId === 'dying' ? [dying, other] : [other, dying];
      await owning.kill();

      const watching = await Watcher.open(caller, staying, 's1', { after: 0 });
      await watching.sees('turn.completed', 't1');
      const events = await caller.events(staying, 's1');
      expect(watching.events).toEqual(events);
      expect(sessionFaults(events)).toEqual([]);
      const resumed = events.find((event) => event.type === 'turn.resumed');
      expect(resumed?.data).toMatchObject({ attempt: 2, voids: 'model:2' });
      const said = events.flatMap((event) => (event.type === 'model.message' ? [event.data] : []));
      expect(said.map(({ step, attempt }) => [step, attempt])).toEqual([
        ['model:1', 1],
        ['model:2', 2],
        ['model:3', 2],
      ]);
      expect(said[1]!.text).toBe(WORDS);
      const history = JSON.parse(said[2]!.text) as ModelMessage[];
      expect(modelInputFaults(history)).toEqual([]);
      const replies = history.filter(({ role }) => role === 'assistant').map(({ content }) => content);
      expect(replies).toEqual(['', WORDS]);
      expect(stage.lines('effects')).toHaveLength(1);
      for (const watcher of [heard, watching]) watcher.close();
    }),
  );
});

describe('a pod that stood still while another process of its POD_ID took its session over', () => {
  test(
    'leaves its successor’s lease, line and ledger alone when it wakes',
    onServers(async (stage) => {
      const [first] = await stage.start(['same'], UNMISSED);
      await caller.say(first, 's1', 'say one\nsleep 600\ntool append {"file":"effects","line":"x"}\nsay two', 't1');
      await begun(stage, 't1', 'model:2');
      await first.freeze();
      const [second] = await stage.start(['same'], UNMISSED);
      // It is at the step that the first one is at too.
      const acting = await second.holdAt('step.before', { turnId: 't1', step: 'model:2' });
      await acting.reached();
      const before = await caller.ownership(second, 's1');
      expect(before).toMatchObject({ owner: { podId: 'same', epoch: 2 }, ledgerEpoch: 2 });
      const events = await caller.events(second, 's1');

      first.thaw();
      await until('it has let go', async () => {
        const { active, idle } = (await first.look()).actors;
        return active + idle === 0;
      });
      const after = await caller.ownership(second, 's1');
      expect(after.owner).toMatchObject({ boot: before.owner!.boot, epoch: 2 });
      expect(after.processing).toEqual({ turnId: 't1', generation: 1 });
      expect(await caller.events(second, 's1')).toEqual(events);

      await acting.release();
      expect(await caller.ended(second, 's1', 't1')).toMatchObject({ state: 'completed', attempts: 2 });
      expect(sessionFaults(await caller.events(second, 's1'))).toEqual([]);
      expect(stage.lines('effects')).toHaveLength(1);
    }),
  );
});

describe('a message that kills every pod that works on it', () => {
  const DEADLY = 'exit 137';

  test(
    'is given up after TURN_MAX_ATTEMPTS, counted before they run; it can be stopped meanwhile, and what waits behind it runs',
    onServers(async (stage) => {
      const settings = { ...SHORT_LEASE, ROLES: 'actors', TURN_MAX_ATTEMPTS: '2' };
      const [door] = await stage.start(['door'], { ROLES: 'api' });
      await caller.say(door, 's1', DEADLY, 'stopped');
      await caller.say(door, 's1', 'say after', 's1.2');
      const [first] = await stage.start(['first'], settings);
      expect(await first.exited).toMatchObject({ code: 137 });
      expect(await caller.turn(door, 's1', 'stopped')).toMatchObject({ state: 'running', attempts: 1 });
      expect((await caller.stop(door, 's1', 'stopped')).body).toMatchObject({ state: 'stop_requested' });

      const pods = await stage.start(['a', 'b', 'c'], settings);
      expect(await caller.ended(door, 's1', 'stopped')).toMatchObject({ state: 'stopped', attempts: 1 });
      expect(await caller.ended(door, 's1', 's1.2')).toMatchObject({ state: 'completed' });
      expect(pods.map(({ alive }) => alive)).toEqual([true, true, true]);

      await caller.say(door, 's2', DEADLY, 'deadly');
      await caller.say(door, 's2', 'say after', 's2.2');
      expect(await caller.ended(door, 's2', 'deadly')).toMatchObject({
        ...{ state: 'failed', attempts: 2, error: { code: 'poisoned' } },
      });
      expect(await caller.ended(door, 's2', 's2.2')).toMatchObject({ state: 'completed' });
      expect(pods.filter(({ alive }) => alive)).toHaveLength(1);
      expect(stage.calls().filter(({ turn }) => turn === 'deadly')).toHaveLength(2);
      for (const session of ['s1', 's2']) expect(sessionFaults(await caller.events(door, session))).toEqual([]);
    }),
  );
});
