import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { CalledPod } from '../../../../test/called-pod.js';

let pod: CalledPod;
beforeAll(async () => {
  pod = await CalledPod.start();
});
afterAll(() => pod.stop());

const session = '/v1/sessions/places';
const post = (turnId: string, content = 'say hello') =>
  pod.call('POST', `${session}/messages`, { body: { turnId, content } });
const act = (turnId: string, what: 'stop' | 'retry', body: unknown = {}) =>
  pod.call('POST', `${session}/turns/${turnId}/${what}`, { body });
const stateOf = async (turnId: string) => (await pod.call('GET', `${session}/turns/${turnId}`)).body['state'];
const listed = async () =>
  ((await pod.call('GET', `${session}/turns`)).body['turns'] as { turnId: string; generation: number }[]).map(
    ({ turnId, generation }) => `${turnId} ${generation}`,
  );

describe('the places of turns', () => {
  it('are in the order of the session: what is retried goes to the end, what was stopped ahead keeps its place', async () => {
    await post('p1', 'sleep 60000');
    await post('p2');
    await post('p3');
    for (const turnId of ['p2', 'p3']) expect((await act(turnId, 'stop')).body).toMatchObject({ state: 'stopped' });
    expect(await listed()).toEqual(['p1 1', 'p2 1', 'p3 1']);
    expect((await act('p2', 'retry', { generation: 1 })).status).toBe(202);
    expect((await act('p3', 'stop', { generation: 2 })).status).toBe(202);
    expect(await listed()).toEqual(['p1 1', 'p3 2', 'p2 2']);
    await act('p1', 'stop');
    await pod.until(async () => (await stateOf('p2')) === 'completed');
    expect(await stateOf('p1')).toBe('stopped');
  });

  it('a tombstone has none, and is found by its id', async () => {
    expect((await act('unborn', 'stop', { reason: 'changed my mind' })).body).toEqual({
      ...{ sessionId: 'places', turnId: 'unborn', generation: 1, state: 'stopped', already: false },
    });
    expect(await listed()).not.toContain('unborn 1');
    expect((await pod.call('GET', `${session}/turns/unborn`)).body).toMatchObject({
      ...{ state: 'stopped', content: null, queueSeq: null, acceptedAt: null },
      stop: { by: 'dev', reason: 'changed my mind' },
    });
    expect((await post('unborn')).body).toMatchObject({ status: 409, code: 'turn_stopped', generation: 1 });
  });

  it.each(['c', 'r'])('no message is posted under an id of the runtime’s own: %s~…', async (kind) => {
    const { status, body } = await post(`${kind}~${'0'.repeat(40)}`);
    expect([status, body['code']]).toEqual([400, 'validation_failed']);
    expect(JSON.stringify(body['errors'])).toContain('turnId');
    expect((await post(`${kind}~mine`)).status).toBe(202);
  });
});
