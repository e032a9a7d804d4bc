import { describe, expect, test } from '@jest/globals';
import type { Event, ModelMessage, Turn } from '#protocol';
import { Caller } from '../e2e/harness/caller.js';
import type { Pod } from '../e2e/harness/pod.js';
import type { ScriptCall } from '../e2e/harness/script-calls.js';
import { onServers, type Stage } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';
import { leasesOf } from './harness/leases.js';
import { sessionFaults } from './harness/session-faults.js';

const SHORT_LEASE = { LEASE_TTL_MS: '3000', LEASE_RENEW_MS: '1000', SWEEP_INTERVAL_MS: '500' };
const caller = new Caller();

const ofTurn = (events: readonly Event[], turnId: string): Event[] => events.filter((event) => event.turnId === turnId);
const life = (events: readonly Event[], turnId: string): Event['type'][] =>
  ofTurn(events, turnId).flatMap(({ type }) => (type.startsWith('turn.') ? [type] : []));

/** Resolves when the pod runs this step of a turn. */
function begun(stage: Stage, turn: string, key: string): Promise<ScriptCall> {
  return until(`${turn} is at ${key}`, () => stage.calls().find((call) => call.turn === turn && call.key === key));
}

async function expectWhole(pod: Pod, ...sessions: string[]): Promise<void> {
  for (const session of sessions) {
    const faults = sessionFaults(await caller.events(pod, session));
    expect({ session, faults }).toEqual({ session, faults: [] });
  }
}

/** Nobody misses the pod, so its lease stands. */
const UNMISSED = { ...SHORT_LEASE, PRESENCE_CHECK_MS: '0' };

describe('a stop of a turn whose pod was killed, before its lease is over', () => {
  test(
    'ends it as stopped, its open call closed, without another step; the next message runs, one that was stopped does not',
    onServers(async (stage) => {
      const [dying] = await stage.start(['dying'], UNMISSED);
      await caller.say(dying, 's1', 'say one\ntool append {"file":"effects","line":"x","ms":60000}\nsay two', 't1');
      await begun(stage, 't1', 'tool:model-2-1');
      await caller.say(dying, 's1', 'say never', 't2');
      const [other] = await stage.start(['other'], UNMISSED);
      await dying.kill();

      const stopped = await caller.stop(other, 's1', 't1', { reason: 'no more' });
      expect(stopped.body).toMatchObject({ state: 'stop_requested', already: false });
      expect((await caller.stop(other, 's1', 't1')).body).toMatchObject({ state: 'stop_requested', already: true });
      expect((await caller.stop(other, 's1', 't2')).body).toMatchObject({ state: 'stopped', already: false });
      expect(await leasesOf(stage.place, 'dying')).toEqual(['s1']);
      await caller.say(other, 's1', 'history', 't3');

      expect(await caller.ended(other, 's1', 't3')).toMatchObject({ state: 'completed', attempts: 1 });
      expect(await caller.turn(other, 's1', 't1')).toMatchObject({
        ...{ state: 'stopped', attempts: 1, stop: { by: 'ann', reason: 'no more' } },
      });
      const events = await caller.events(other, 's1');
      expect(life(events, 't1')).toEqual(['turn.started', 'turn.stop_requested', 'turn.stopped']);
      expect(ofTurn(events, 't1').slice(-2)).toMatchObject([
        { type: 'tool.result', data: { callId: 'model-2-1', outcome: 'interrupted' } },
        { type: 'turn.stopped', data: { by: 'ann', reason: 'no more', gate: 'start' } },
      ]);
      expect(life(events, 't2')).toEqual(['turn.stopped']);
      expect(stage.calls().filter((call) => call.pod === 'other' && call.turn !== 't3')).toEqual([]);
      expect(stage.lines('effects')).toHaveLength(1);
      await expectWhole(other, 's1');
    }),
  );

  test(
    'reaches its children that run on other pods at once, and they report nothing',
    onServers(async (stage) => {
      const { dying, others } = await family(stage, 60_000);
      await dying.kill();
      expect((await caller.stop(others[0], 'parent', 't1')).body).toMatchObject({ state: 'stop_requested' });
      for (const kid of ['kid-1', 'kid-2']) {
        await until('the child is stopped', async () => (await onlyTurn(others[0], kid)).state === 'stopped', 2000);
        const end = (await caller.events(others[0], kid)).at(-1)!;
        expect(end).toMatchObject({ type: 'turn.stopped', data: { gate: 'running', via: { turnId: 't1' } } });
      }
      expect(await leasesOf(stage.place, 'dying')).toEqual(['parent']);
      expect(await caller.ended(others[0], 'parent', 't1')).toMatchObject({ state: 'stopped' });
      expect(await caller.turns(others[0], 'parent')).toHaveLength(1);
      await expectWhole(others[0], 'parent', 'kid-1', 'kid-2');
    }),
  );
});

test(
  'a stop whose pod dies between its commit and its notice is found by the pod that runs the turn',
  onServers(async (stage) => {
    const [owner, dying] = await stage.start(['owner', 'dying'], { ...SHORT_LEASE, SWEEP_INTERVAL_MS: '60000' });
    await caller.say(owner, 's1', 'say warm up', 't0');
    await caller.ended(owner, 's1', 't0');
    const [sweeping] = await stage.start(['sweeping'], SHORT_LEASE);
    await caller.say(sweeping, 's2', 'sleep 60000', 'u1');
    await begun(stage, 'u1', 'model:1');
    await dying.dieAt('stop.committed', { turnId: 'u1' });
    await expect(caller.stop(dying, 's2', 'u1')).rejects.toThrow();
    expect(await caller.ended(owner, 's2', 'u1', 5000)).toMatchObject({ state: 'stopped' });
    expect((await caller.stop(owner, 's2', 'u1')).body).toMatchObject({ state: 'stopped', already: true });
  }),
);

describe('a stop while the pod drains', () => {
  const SETTINGS = { SHUTDOWN_GRACE_MS: '8000', SWEEP_INTERVAL_MS: '60000' };

  test(
    'ends that turn as stopped and does not put it in line again; the other turns of the pod go on elsewhere, not stopped',
    onServers(async (stage) => {
      const [leaving, other] = await stage.start(['leaving', 'other'], SETTINGS);
      const work = 'tool sleep {"ms":1500,"deaf":true}\nsay done';
      for (const turn of ['t1', 'u1']) await caller.say(leaving, `s-${turn}`, work, turn);
      for (const turn of ['t1', 'u1']) await begun(stage, turn, 'tool:model-1-1');
      const gone = leaving.terminate();
      await until('it drains', async () => (await fetch(`${leaving.url}/health/ready`)).status === 503);
      expect((await caller.stop(other, 's-t1', 't1')).body).toMatchObject({ state: 'stop_requested', already: false });

      expect(await caller.ended(other, 's-t1', 't1')).toMatchObject({ state: 'stopped', attempts: 1 });
      expect(await caller.ended(other, 's-u1', 'u1')).toMatchObject({ state: 'completed', stop: null, attempts: 2 });
      expect(await gone).toMatchObject({ code: 0, signal: null });
      const stopped = await caller.events(other, 's-t1');
      expect(life(stopped, 't1')).toEqual(['turn.started', 'turn.stop_requested', 'turn.stopped']);
      expect(life(await caller.events(other, 's-u1'), 'u1')).toEqual([
        ...['turn.started', 'turn.yielded', 'turn.resumed', 'turn.completed'],
      ]);
      await caller.say(other, 's-t1', 'say next', 't2');
      expect(await caller.ended(other, 's-t1', 't2')).toMatchObject({ state: 'completed' });
      await expectWhole(other, 's-t1', 's-u1');
    }),
  );

  test(
    'that comes when the turn has just been given up ends it at the next pod, before any step',
    onServers(async (stage) => {
      const [leaving, other] = await stage.start(['leaving', 'other'], SETTINGS);
      await caller.say(leaving, 's1', 'sleep 500\nsay done', 't1');
      await begun(stage, 't1', 'model:1');
      const yielding = await leaving.holdAt('yield.before', { turnId: 't1' });
      const gone = leaving.terminate();
      await yielding.reached();
      expect((await caller.stop(other, 's1', 't1')).body).toMatchObject({ state: 'stop_requested', already: false });
      await yielding.release();

      expect(await caller.ended(other, 's1', 't1')).toMatchObject({ state: 'stopped', attempts: 1 });
      await gone;
      const events = await caller.events(other, 's1');
      expect(events.at(-1)).toMatchObject({ type: 'turn.stopped', data: { gate: 'start' } });
      expect(stage.calls().map((call) => [call.pod, call.key])).toEqual([['leaving', 'model:1']]);
      await expectWhole(other, 's1');
    }),
  );
});

describe('a parent that awaits two children', () => {
  test(
    'goes on at another pod when its own is killed; the children run once and report once',
    onServers(async (stage) => {
      const { dying, others } = await family(stage, 2500);
      await dying.kill();
      await expectReported(stage, others[0]);
      for (const kid of ['kid-1', 'kid-2']) {
        expect(await onlyTurn(others[0], kid)).toMatchObject({ state: 'completed', attempts: 1 });
        expect(stage.calls().filter((call) => call.session === kid)).toHaveLength(3);
      }
    }),
  );

  test(
    'goes on when it was killed together with them: no recorded step runs again, and they report once',
    onServers(async (stage) => {
      const [dying, ...others] = await stage.start(['dying', 'b'], SHORT_LEASE);
      await caller.say(dying, 'parent', parentOf(1500), 't1');
      await until('both children run', () => stage.calls().filter((call) => call.key === 'model:2').length >= 3);
      await dying.kill();
      await expectReported(stage, others[0]);
      for (const kid of ['kid-1', 'kid-2']) {
        expect(await onlyTurn(others[0], kid)).toMatchObject({ state: 'completed', attempts: 2 });
        expect(stage.calls().filter((call) => call.session === kid && call.key === 'model:1')).toHaveLength(1);
      }
    }),
  );

  test(
    'hears once of a child that has ended while nobody owned the parent',
    onServers(async (stage) => {
      const { dying, others } = await family(stage, 500);
      await dying.kill();
      for (const kid of ['kid-1', 'kid-2']) {
        await until('the child ends', async () => (await onlyTurn(others[0], kid)).state === 'completed', 2500);
      }
      await expectReported(stage, others[0]);
    }),
  );
});

function parentOf(ms: number): string {
  const spawns = ['kid-1', 'kid-2'].map((kid) => `spawn ${kid}\n  say begun\n  sleep ${ms}\n  say words of ${kid}`);
  return ['say planning', ...spawns, 'await', 'history'].join('\n');
}

/** A parent on a pod that has room for nothing else, and its two children at work on others. */
async function family(stage: Stage, ms: number): Promise<{ dying: Pod; others: [Pod, Pod] }> {
  const [[dying], others] = await Promise.all([
    stage.start(['dying'], { ...UNMISSED, ACTOR_MAX_ACTIVE: '1' }),
    stage.start(['b', 'c'], UNMISSED),
  ]);
  await caller.say(dying, 'parent', parentOf(ms), 't1');
  const atWork = (kid: string): boolean => stage.calls().some((call) => call.session === kid && call.key === 'model:2');
  await until('both children run', () => atWork('kid-1') && atWork('kid-2'));
  expect(stage.calls().filter((call) => call.session !== 'parent' && call.pod === 'dying')).toEqual([]);
  return { dying, others };
}

async function onlyTurn(pod: Pod, session: string): Promise<Turn> {
  const turns = await caller.turns(pod, session);
  expect(turns).toHaveLength(1);
  return turns[0]!;
}

/** The parent has completed; each child has reported once, and both reports have been taken in by it, once. */
async function expectReported(stage: Stage, pod: Pod): Promise<void> {
  expect(await caller.ended(pod, 'parent', 't1')).toMatchObject({ state: 'completed', generation: 1 });
  const events = await caller.events(pod, 'parent');
  const reports = events.flatMap((event) => (event.type === 'child.reported' ? [event.data] : []));
  expect(reports.map(({ child, state, text }) => [child.sessionId, state, text]).sort()).toEqual([
    ...[1, 2].map((at) => [`kid-${at}`, 'completed', `words of kid-${at}`]),
  ]);
  const absorbed = events.flatMap((event) => (event.type === 'turn.absorbed' ? [event.data.absorbedBy] : []));
  expect(absorbed).toEqual(Array(2).fill({ turnId: 't1', generation: 1 }));
  const spawned = events.flatMap((event) => (event.type === 'child.spawned' ? [event.data.child.sessionId] : []));
  expect(spawned).toEqual(['kid-1', 'kid-2']);
  const last = events.findLast((event) => event.type === 'model.message')!;
  const heard = (JSON.parse(last.data.text) as ModelMessage[]).filter(({ content }) => content.startsWith('Sub-agent'));
  expect(heard.map(({ role }) => role)).toEqual(['user', 'user']);
  const kinds = (await caller.turns(pod, 'parent')).map(({ kind, state }) => `${kind} ${state}`);
  expect(kinds).toEqual(['user completed', 'report completed', 'report completed']);
  await expectWhole(pod, 'parent', 'kid-1', 'kid-2');
}
