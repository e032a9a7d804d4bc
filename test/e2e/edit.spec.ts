import { expect, test } from '@jest/globals';
import type { Turn } from '#protocol';
import { type Answer, Caller } from './harness/caller.js';
import type { Pod } from './harness/pod.js';
import { onFile, onServers, type Stage } from './harness/stage.js';
import { until } from './harness/until.js';

const caller = new Caller();
const bob = new Caller('acme', 'bob', 'user');

const kinds: [string, (work: (stage: Stage) => Promise<void>) => () => Promise<void>][] = [
  ['on servers', onServers],
  ['embedded', onFile],
];

interface Problem {
  code?: string;
  state?: string;
}

function edit(
  pod: Pod,
  sessionId: string,
  turnId: string,
  content: unknown,
  who = caller,
): Promise<Answer<Turn & Problem>> {
  return who.call(pod, 'PATCH', `/v1/sessions/${sessionId}/turns/${turnId}`, { content });
}

async function queued(pod: Pod, sessionId: string): Promise<Turn[]> {
  return (await caller.get<{ turns: Turn[] }>(pod, `/v1/sessions/${sessionId}/turns?state=queued`)).turns;
}

function expectRefused({ status, body }: Answer<Problem>, code: string, state?: string): void {
  expect([status, body]).toEqual([409, expect.objectContaining({ code, ...(state !== undefined && { state }) })]);
}

test.each(kinds)('%s the queue is shown as it was edited, and runs as it is shown', async (_, on) => {
  await on(async (stage) => {
    const [pod] = await stage.start(['pod']);
    await caller.say(pod, 's1', 'sleep 60000', 'busy');
    for (const turnId of ['t1', 't2', 't3']) await caller.say(pod, 's1', `say ${turnId}`, turnId);
    const parts = [
      { type: 'text', text: 'say from parts' },
      { type: 'file', url: 'https://a.test/x', mediaType: 'text/plain' },
    ];
    expect(await edit(pod, 's1', 't2', 'say between')).toMatchObject({ status: 200 });
    const { status, body } = await edit(pod, 's1', 't2', 'say edited');
    expect([status, body]).toEqual([
      200,
      { ...(await caller.turn(pod, 's1', 't2')), turnId: 't2', state: 'queued', content: 'say edited', generation: 1 },
    ]);
    expect((await edit(pod, 's1', 't3', parts)).body).toMatchObject({ content: parts });
    expectRefused(await edit(pod, 's1', 't2', 'say mine', bob), 'turn_mismatch');
    expect((await queued(pod, 's1')).map((turn) => [turn.turnId, turn.content])).toEqual([
      ['t1', 'say t1'],
      ['t2', 'say edited'],
      ['t3', parts],
    ]);

    expectRefused(await edit(pod, 's1', 'busy', 'say x'), 'turn_ended', 'running');
    await caller.call(pod, 'POST', '/v1/sessions/s1/turns/busy/stop', {});
    await caller.ended(pod, 's1', 't3');
    expect(await queued(pod, 's1')).toEqual([]);
    const events = await caller.events(pod, 's1');
    const said = events.flatMap((event) => (event.type === 'model.message' ? [event.data.text] : []));
    expect(said.slice(0, 2)).toEqual(['t1', 'edited']);
    expect(said[2]).toContain('from parts');
    expect(events.filter(({ type }) => type === 'message.edited')).toHaveLength(3);
    expect((await edit(pod, 's1', 't2', 'say edited')).body).toMatchObject({ state: 'completed' });
    expectRefused(await edit(pod, 's1', 't2', 'say t2'), 'turn_ended', 'completed');
  })();
});

test.each(kinds)('%s neither a tombstone nor a report can be edited', async (_, on) => {
  await on(async (stage) => {
    const [pod] = await stage.start(['pod']);
    await caller.call(pod, 'POST', '/v1/sessions/s1/turns/unborn/stop', {});
    expectRefused(await edit(pod, 's1', 'unborn', 'say x'), 'turn_ended', 'stopped');
    expectRefused(await edit(pod, 's1', 'unborn', 'say x', bob), 'turn_ended', 'stopped');
    expect((await caller.post(pod, 's1', { turnId: 'unborn', content: 'say x' })).body).toMatchObject({
      code: 'turn_stopped',
    });

    await caller.say(pod, 's2', 'spawn s2-child\n  say hello\nsleep 60000', 'parent');
    const report = await until('the report', async () =>
      (await queued(pod, 's2')).find(({ kind }) => kind === 'report'),
    );
    const before = await caller.events(pod, 's2');
    for (const who of [caller, bob]) {
      const { status, body } = await edit(pod, 's2', report.turnId, 'say lies', who);
      expect([status, body.code]).toEqual([409, who === bob ? 'turn_mismatch' : 'turn_ended']);
    }
    expect(await caller.events(pod, 's2')).toEqual(before);
    expect((await queued(pod, 's2')).map(({ content }) => content)).toEqual([report.content]);
    await caller.call(pod, 'POST', '/v1/sessions/s2/turns/parent/stop', {});
  })();
});
