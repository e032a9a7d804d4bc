import { expect, test } from '@jest/globals';
import type { Event, EventData, EventType, ModelMessage, SRef, Turn } from '#protocol';
import { modelInputFaults } from '#test-kit';
import { Caller } from './harness/caller.js';
import type { Pod } from './harness/pod.js';
import { onServers, type Stage } from './harness/stage.js';
import { until } from './harness/until.js';

/** A pod that has a turn takes no other one: each turn of a family runs on a pod of its own. */
const ONE_EACH = { ACTOR_MAX_ACTIVE: '1', LOG_LEVEL: 'warn' };
/** How soon a stop reaches a whole family (I6, I9). */
const AT_ONCE_MS = 1000;
const caller = new Caller('acme', 'ann', 'user');
const admin = new Caller('acme', 'ada', 'user admin');

const indented = (lines: string): string => lines.replace(/^/gm, '  ');
const spawn = (session: string, lines: string): string => `spawn ${session}\n${indented(lines)}`;
function dataOf<T extends EventType>(events: readonly Event[], type: T): EventData[T][] {
  return events.flatMap((event) => (event.type === type ? [event.data as EventData[T]] : []));
}

async function children(pod: Pod, session: string): Promise<SRef[]> {
  return dataOf(await caller.events(pod, session), 'child.spawned').map(({ child }) => child);
}

const refOf = ({ sessionId, turnId, generation }: Turn): SRef => ({ sessionId, turnId, generation });

/** Resolves when every one of these sessions has a step under way. */
async function atWork(stage: Stage, ...sessions: string[]): Promise<string[]> {
  return until(`${sessions.join(', ')} at work`, () => {
    const calls = stage.calls().filter((call) => call.endNs === null);
    const pods = sessions.map((session) => calls.find((call) => call.session === session)?.pod);
    return pods.every((pod) => pod !== undefined) && (pods as string[]);
  });
}

test(
  'a parent spawns, awaits and hears its children: their words stand in its history, and each can be read with its parent',
  onServers(async (stage) => {
    const [a, b] = await stage.start(['a', 'b']);
    const kid = spawn('kid', `say thinking\n${spawn('grandkid', 'say of the grandkid')}\nawait\nsay of the kid`);
    await caller.say(a, 'top', `say plan\n${kid}\n${spawn('other', 'throw it broke')}\nawait\nhistory`, 't1');
    const parent = await caller.ended(b, 'top', 't1');
    expect(parent).toMatchObject({ state: 'completed', parent: null, attempts: 1 });

    const [kidRef, otherRef] = await children(b, 'top');
    const [grandRef] = await children(a, 'kid');
    const seen = [];
    for (const ref of [kidRef!, otherRef!, grandRef!]) seen.push(await caller.turn(b, ref.sessionId, ref.turnId));
    const life = { kind: 'user', mode: 'enqueue', initiator: 'ann', generation: 1, attempts: 1 };
    expect(seen).toMatchObject([
      { ...life, sessionId: 'kid', parent: refOf(parent), state: 'completed' },
      { ...life, sessionId: 'other', parent: refOf(parent), state: 'failed', error: { message: 'it broke' } },
      { ...life, sessionId: 'grandkid', parent: kidRef, state: 'completed' },
    ]);
    expect(seen.map(({ turnId }) => /^c~[0-9a-f]{40}$/.test(turnId))).toEqual([true, true, true]);

    const events = await caller.events(a, 'top');
    const reported = dataOf(events, 'child.reported').sort((one, other) => (one.state < other.state ? -1 : 1));
    expect(reported).toEqual([
      { child: kidRef, state: 'completed', text: 'of the kid' },
      { child: otherRef, state: 'failed', text: 'it broke' },
    ]);
    const reports = (await caller.turns(b, 'top')).filter(({ kind }) => kind === 'report');
    const taken = { mode: 'steer', state: 'completed', parent: refOf(parent), attempts: 0 };
    expect(reports).toMatchObject(Array(2).fill({ ...taken, absorbedBy: { turnId: 't1', generation: 1 } }));
    const last = dataOf(events, 'model.message').at(-1)!;
    const history = JSON.parse(last.text) as ModelMessage[];
    expect(modelInputFaults(history)).toEqual([]);
    const heard = history.flatMap(({ role, content }) =>
      content.startsWith('Sub-agent') ? [`${role}: ${content}`] : [],
    );
    expect(heard.sort()).toEqual([
      `user: Sub-agent kid/${kidRef!.turnId} completed.\nof the kid`,
      `user: Sub-agent other/${otherRef!.turnId} failed.\nit broke`,
    ]);
  }),
);

test(
  "a spawn into a session that others use, or into another parent's, is the call's error result, and the turn goes on",
  onServers(async (stage) => {
    const [pod] = await stage.start(['pod']);
    await caller.say(pod, 'users', 'say mine', 'u1');
    await caller.say(
      pod,
      'one',
      `${spawn('kid', 'say first')}\nawait\n${spawn('kid', 'say again')}\nawait\nsay done`,
      't1',
    );
    await caller.ended(pod, 'one', 't1');
    const rows = await caller.events(pod, 'users');
    await caller.say(pod, 'two', `${spawn('users', 'say x')}\n${spawn('kid', 'say x')}\nawait\nsay done`, 't2');
    expect(await caller.ended(pod, 'two', 't2')).toMatchObject({ state: 'completed' });
    const outcomes = async (session: string): Promise<string[]> =>
      dataOf(await caller.events(pod, session), 'tool.result').map(({ outcome }) => outcome);
    expect([await outcomes('one'), await outcomes('two')]).toEqual([
      ['ok', 'ok'],
      ['error', 'error'],
    ]);
    expect(await caller.events(pod, 'users')).toEqual(rows);
    expect((await caller.turns(pod, 'kid')).map(({ parent }) => parent?.turnId)).toEqual(['t1', 't1']);
    const reserved = await caller.post(pod, 'users', { turnId: `c~${'0'.repeat(40)}`, content: 'say x' });
    expect([reserved.status, reserved.body]).toEqual([400, expect.objectContaining({ code: 'validation_failed' })]);
  }),
);

test(
  'a stop reaches children and grandchildren on other pods at once, and those that wait never run; nobody reports',
  onServers(async (stage) => {
    const pods = await stage.start(['a', 'b', 'c'], ONE_EACH);
    const grandkid = spawn('grandkid', 'say begun\nsleep 60000\nsay never');
    const never = spawn('grandkid', 'say never');
    const kid = spawn('kid', `${grandkid}\n${never}\nsleep 60000\nsay never`);
    await caller.say(pods[0], 'top', `${kid}\nsleep 60000\nsay never`, 't1');
    await until('all is spawned', async () => (await children(pods[0], 'kid')).length === 2);
    expect(new Set(await atWork(stage, 'top', 'kid', 'grandkid')).size).toBe(3);
    const [kidRef] = await children(pods[0], 'top');
    const below = [kidRef!, ...(await children(pods[0], 'kid'))];

    const sinceMs = performance.now();
    const { body } = await admin.stop(pods[2], 'top', 't1', { reason: 'enough' });
    expect(body).toMatchObject({ state: 'stop_requested', already: false });
    const turns = await Promise.all(
      [{ sessionId: 'top', turnId: 't1' }, ...below].map((ref) => caller.ended(pods[1], ref.sessionId, ref.turnId)),
    );
    expect(performance.now() - sinceMs).toBeLessThan(AT_ONCE_MS);
    expect(turns).toMatchObject(Array(4).fill({ state: 'stopped', stop: { by: 'ada', reason: 'enough' } }));

    const ends = [];
    for (const session of ['top', 'kid', 'grandkid']) {
      const events = await caller.events(pods[0], session);
      ends.push(...dataOf(events, 'turn.stopped').map(({ gate, via }) => [session, gate, via?.turnId]));
      expect(dataOf(events, 'child.reported')).toEqual([]);
    }
    expect(ends.sort()).toEqual([
      ['grandkid', 'running', 't1'],
      ['grandkid', 'stop', 't1'],
      ['kid', 'running', 't1'],
      ['top', 'running', undefined],
    ]);
    expect(stage.calls().filter((call) => call.turn === below[2]!.turnId)).toEqual([]);
    expect(stage.calls().filter((call) => call.endNs === null)).toEqual([]);

    // Below a stopped turn nothing begins again; with a retry of its own it spawns other children.
    const refused = await caller.retry(pods[1], 'kid', kidRef!.turnId, 1);
    expect([refused.status, refused.body]).toEqual([
      409,
      expect.objectContaining({ code: 'turn_stopped', turnId: 't1' }),
    ]);
    expect((await caller.retry(pods[1], 'top', 't1', 1)).body).toMatchObject({ generation: 2 });
    await until('it has spawned again', async () => (await children(pods[0], 'kid')).length === 4);
    const [, again] = await children(pods[0], 'top');
    expect(again!.turnId).not.toBe(kidRef!.turnId);
    expect(await caller.turn(pods[0], 'kid', again!.turnId)).toMatchObject({ parent: { turnId: 't1', generation: 2 } });
    await caller.stop(pods[0], 'top', 't1');
    expect(await caller.ended(pods[0], 'top', 't1')).toMatchObject({ state: 'stopped', generation: 2 });
  }),
);

test(
  'a stop of a parent that has completed stops what still lives below it; of a child alone, it tells the parent, which goes on',
  onServers(async (stage) => {
    const [a, b] = await stage.start(['a', 'b']);
    await caller.say(a, 'ended', `${spawn('left', 'sleep 60000')}\nsay done`, 't1');
    await caller.ended(a, 'ended', 't1');
    await atWork(stage, 'left');
    expect((await caller.stop(b, 'ended', 't1')).body).toMatchObject({ state: 'completed', already: true });
    const [left] = await children(a, 'ended');
    expect(await caller.ended(b, 'left', left!.turnId)).toMatchObject({ state: 'stopped' });
    expect(await caller.turn(b, 'ended', 't1')).toMatchObject({ state: 'completed', stop: null });
    expect(await caller.turns(b, 'ended')).toHaveLength(1);

    await caller.say(a, 'waits', `${spawn('one', 'sleep 60000')}\n${spawn('two', 'say well')}\nawait\nsay done`, 't2');
    await atWork(stage, 'one');
    const [one] = await children(a, 'waits');
    await caller.stop(b, 'one', one!.turnId, { reason: 'too slow' });
    expect(await caller.ended(b, 'waits', 't2')).toMatchObject({ state: 'completed', stop: null });
    const states = dataOf(await caller.events(b, 'waits'), 'child.reported').map(({ child, state }) => [
      child.sessionId,
      state,
    ]);
    expect(states.sort()).toEqual([
      ['one', 'stopped'],
      ['two', 'completed'],
    ]);
  }),
);

test.each(['stop', 'retry'] as const)(
  'a child that was to stop before the %s of a turn above it reports nothing any more, nor to a parent that has ended',
  async (act) => {
    await onServers(async (stage) => {
      const [a, b] = await stage.start(['a', 'b']);
      const low = spawn('low', 'tool sleep {"ms":1500,"deaf":true}\nsay never');
      await caller.say(
        a,
        'top',
        `${spawn('mid', `${low}\nsay done`)}\n${act === 'stop' ? 'sleep 60000' : 'say done'}`,
        't1',
      );
      await atWork(stage, 'low');
      const [mid] = await children(a, 'top');
      const [end] = await children(a, 'mid');
      await caller.ended(a, 'mid', mid!.turnId);
      expect((await caller.stop(b, 'low', end!.turnId)).body).toMatchObject({
        state: 'stop_requested',
        already: false,
      });
      if (act === 'retry') await caller.ended(a, 'top', 't1');
      await (act === 'stop' ? caller.stop(b, 'top', 't1') : caller.retry(b, 'top', 't1', 1));
      expect((await caller.turn(b, 'low', end!.turnId)).state).toBe('stop_requested');
      expect(await caller.ended(b, 'low', end!.turnId)).toMatchObject({ state: 'stopped', stop: { by: 'ann' } });
      expect(dataOf(await caller.events(b, 'mid'), 'child.reported')).toEqual([]);
      expect((await caller.turns(b, 'mid')).filter(({ kind }) => kind === 'report')).toEqual([]);
      await caller.stop(b, 'top', 't1');
    })();
  },
);
