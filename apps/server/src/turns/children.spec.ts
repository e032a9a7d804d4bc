import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Answered, CalledPod } from '../../../../test/called-pod.js';

let pod: CalledPod;
// As little room as there can be: a parent that kept it would keep its own children out.
beforeAll(async () => {
  pod = await CalledPod.start({ ACTOR_MAX_ACTIVE: '1' });
});
afterAll(() => pod.stop());

const turnOf = async (sessionId: string, turnId: string): Promise<Answered['body']> =>
  (await pod.call('GET', `/v1/sessions/${sessionId}/turns/${turnId}`)).body;
const post = (sessionId: string, turnId: string, lines: string[]): Promise<Answered> =>
  pod.call('POST', `/v1/sessions/${sessionId}/messages`, { body: { turnId, content: lines.join('\n') } });
const isIn = (sessionId: string, turnId: string, state: string) => async (): Promise<boolean> =>
  (await turnOf(sessionId, turnId))['state'] === state;

describe('children', () => {
  it('[E1] run while their parents wait, in a pod with room for one turn', async () => {
    const lines = (name: string): string[] => [
      `spawn ${name}-a`,
      '  say a',
      `spawn ${name}-b`,
      '  say b',
      'await',
      'say over',
    ];
    await post('p', 'parent', [...lines('p'), 'history']);
    await post('q', 'other', lines('q'));
    await pod.until(isIn('p', 'parent', 'completed'));
    await pod.until(isIn('q', 'other', 'completed'));
    const { body } = await pod.call('GET', '/v1/sessions/p-a/turns');
    const [child] = body['turns'] as Answered['body'][];
    expect(child).toMatchObject({ state: 'completed', parent: { sessionId: 'p', turnId: 'parent', generation: 1 } });
  });

  it('are stopped with their parent, to any depth, and what waits behind it runs', async () => {
    await post('top', 'stopped', ['spawn mid', '  spawn low', '    sleep 60000', '  await', 'await']);
    await post('top', 'next', ['say next']);
    await pod.until(async () => (await pod.call('GET', '/v1/sessions/low')).body['state'] === 'running');
    const { body } = await pod.call('POST', '/v1/sessions/top/turns/stopped/stop', { body: { reason: 'enough' } });
    expect(body).toMatchObject({ state: 'stop_requested', already: false });
    await pod.until(isIn('top', 'next', 'completed'));
    for (const sessionId of ['mid', 'low']) {
      const [turn] = (await pod.call('GET', `/v1/sessions/${sessionId}/turns`)).body['turns'] as Answered['body'][];
      await pod.until(isIn(sessionId, turn!['turnId'] as string, 'stopped'));
      const { stop } = await turnOf(sessionId, turn!['turnId'] as string);
      expect(stop).toMatchObject({ by: 'dev', reason: 'enough' });
    }
    const { body: list } = await pod.call('GET', '/v1/sessions/top/turns');
    expect((list['turns'] as Answered['body'][]).map(({ turnId, state }) => [turnId, state])).toEqual([
      ['stopped', 'stopped'],
      ['next', 'completed'],
    ]);
  });
});
