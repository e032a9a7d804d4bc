import { expect, test } from '@jest/globals';
import { Caller } from './harness/caller.js';
import type { Pod } from './harness/pod.js';
import { onServers } from './harness/stage.js';
import { until } from './harness/until.js';

const SHORT_LEASE = { LEASE_TTL_MS: '1500', LEASE_RENEW_MS: '500', SWEEP_INTERVAL_MS: '500' };
const caller = new Caller();

const WORK = [
  'tool append {"file":"effects","line":"before"}',
  'say halfway',
  'sleep 1000',
  'tool append {"file":"effects","line":"after"}',
  'say done',
].join('\n');

test(
  'another pod resumes the turn of a pod that was killed, after its last recorded step, under a new epoch',
  onServers(async (stage) => {
    const pods = await stage.start(['a', 'b'], SHORT_LEASE);
    await caller.say(pods[0], 's1', WORK, 't1');
    await caller.say(pods[1], 's1', 'say next', 't2');
    await until('the step in the middle', () => stage.calls().some((call) => call.key === 'model:3'));
    const [dying, other] = await ownerFirst(pods, 's1');
    const before = await caller.ownership(other, 's1');
    expect(before).toMatchObject({
      owner: { podId: dying.name, epoch: 1 },
      ledgerEpoch: 1,
      processing: { turnId: 't1', generation: 1 },
      pending: [{ turnId: 't2', generation: 1 }],
      runningTurn: { turnId: 't1', state: 'running', attempts: 1 },
    });
    await dying.kill();

    const during = await until('another owner', async () => {
      const now = await caller.ownership(other, 's1');
      return now.ledgerEpoch === 2 && now;
    });
    expect(during).toMatchObject({
      owner: { podId: other.name, epoch: 2 },
      runningTurn: { turnId: 't1', attempts: 2 },
    });
    expect(during.owner!.boot).not.toBe(before.owner!.boot);
    for (const turnId of ['t1', 't2']) {
      expect(await caller.ended(other, 's1', turnId)).toMatchObject({ state: 'completed', generation: 1 });
    }

    expect(stage.lines('effects')).toHaveLength(2);
    const done = stage.calls().filter((call) => call.turn === 't1' && call.endNs !== null);
    expect(done.map((call) => [call.pod, call.attempt, call.epoch])).toEqual([
      ...Array<unknown>(3).fill([dying.name, 1, 1]),
      ...Array<unknown>(4).fill([other.name, 2, 2]),
    ]);
    const events = await caller.events(other, 's1');
    expect(events.map((event) => event.seq)).toEqual(events.map((_, at) => at + 1));
    expect(events.filter((event) => event.type === 'turn.started' && event.turnId === 't1')).toHaveLength(1);
  }),
);

test(
  'a tool call that was under way at the kill and must not be repeated is not: its outcome is unknown',
  onServers(async (stage) => {
    const pods = await stage.start(['a', 'b'], SHORT_LEASE);
    const once = 'tool append {"file":"once","line":"x","ms":60000}';
    const twice = 'tool append {"file":"twice","line":"x","ms":1500,"repeatable":true}';
    await caller.say(pods[0], 's1', `parallel\n  ${once}\n  ${twice}\nsay went on`, 't1');
    await until('both effects', () => stage.lines('once').length === 1 && stage.lines('twice').length === 1);
    const [dying, other] = await ownerFirst(pods, 's1');
    await dying.kill();

    expect(await caller.ended(other, 's1', 't1')).toMatchObject({ state: 'completed', attempts: 2 });
    expect([stage.lines('once').length, stage.lines('twice').length]).toEqual([1, 2]);
    const results = (await caller.events(other, 's1')).flatMap((event) =>
      event.type === 'tool.result' ? [[event.data.callId, event.data.outcome]] : [],
    );
    expect(results.sort()).toEqual([
      ['model-1-1', 'outcome_unknown'],
      ['model-1-2', 'ok'],
    ]);
  }),
);

test(
  'all sessions of a killed pod go on elsewhere',
  onServers(async (stage) => {
    const [dying, other] = await stage.start(['dying', 'b', 'c'], SHORT_LEASE);
    const sessions = Array.from({ length: 20 }, (_, at) => `s${at}`);
    for (const session of sessions) await caller.say(dying, session, 'sleep 500\nsay done', session);
    await until('the last one runs', () => stage.calls().some((call) => call.turn === sessions.at(-1)));
    await dying.kill();
    for (const session of sessions) {
      expect(await caller.ended(other, session, session)).toMatchObject({ state: 'completed', generation: 1 });
    }
    for (const session of sessions) {
      const seqs = (await caller.events(other, session)).map((event) => event.seq);
      expect(seqs).toEqual(seqs.map((_, at) => at + 1));
    }
  }),
);

/** Which of two pods serves a session: a sweep of the other one may have been quicker than the pod that was called. */
async function ownerFirst([one, other]: [Pod, Pod], sessionId: string): Promise<[Pod, Pod]> {
  const { owner } = await caller.ownership(one, sessionId);
  return owner?.podId === one.name ? [one, other] : [other, one];
}
