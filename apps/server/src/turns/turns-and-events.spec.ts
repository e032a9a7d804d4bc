import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { CalledPod, fieldsOf } from '../../../../test/called-pod.js';

let pod: CalledPod;
beforeAll(async () => {
  pod = await CalledPod.start();
});
afterAll(() => pod.stop());

describe('turns and events', () => {
  const session = '/v1/sessions/te';
  let ended: Record<string, unknown>;

  beforeAll(async () => {
    await pod.call('POST', `${session}/messages`, {
      body: { turnId: 'te1', content: 'say hello', metadata: { a: 1 } },
    });
    await pod.call('POST', `${session}/messages`, {
      body: { turnId: 'te2', content: [{ type: 'text', text: 'say bye' }] },
    });
    do ended = (await pod.call('GET', `${session}/turns/te2`)).body;
    while (ended['endedAt'] === null);
  });

  it('one turn has its content and its life', () => {
    expect(ended).toMatchObject({
      ...{
        sessionId: 'te',
        turnId: 'te2',
        generation: 1,
        state: 'completed',
        kind: 'user',
        mode: 'enqueue',
        attempts: 1,
      },
      ...{ content: [{ type: 'text', text: 'say bye' }], initiator: 'dev', parent: null, absorbedBy: null },
      ...{ stop: null, error: null },
    });
    expect('metadata' in ended).toBe(false);
  });

  it('turns are listed by their place, in pages, and by state', async () => {
    const first = (await pod.call('GET', `${session}/turns?limit=1`)).body as {
      turns: { turnId: string }[];
      nextAfter: string;
    };
    expect(first).toMatchObject({ turns: [{ turnId: 'te1', metadata: { a: 1 } }], hasMore: true });
    const second = await pod.call('GET', `${session}/turns?limit=1&after=${first.nextAfter}`);
    expect(second.body).toMatchObject({ turns: [{ turnId: 'te2' }], hasMore: false });
    expect((await pod.call('GET', `${session}/turns?state=completed`)).body['turns']).toHaveLength(2);
    expect((await pod.call('GET', `${session}/turns?state=queued`)).body).toEqual({
      turns: [],
      nextAfter: null,
      hasMore: false,
    });
  });

  it('events are read from a cursor, each once; behind the last one there is nothing, and the cursor stays', async () => {
    const all = (await pod.call('GET', `${session}/events`)).body as { events: { seq: number }[]; nextAfter: number };
    expect(all.events.map(({ seq }) => seq)).toEqual(all.events.map((_, at) => at + 1));
    expect(all.nextAfter).toBe(all.events.length);
    const page = (await pod.call('GET', `${session}/events?after=1&limit=2`)).body;
    expect(page).toEqual({ events: all.events.slice(1, 3), nextAfter: 3, hasMore: true });
    expect((await pod.call('GET', `${session}/events?after=999`)).body).toEqual({
      events: [],
      nextAfter: 999,
      hasMore: false,
    });
  });

  it('are of the session and account that is asked for', async () => {
    for (const path of [
      `${session}/turns/absent`,
      '/v1/sessions/m1/turns/te2',
      '/v1/sessions/absent/turns',
      '/v1/sessions/absent/events',
    ]) {
      const { status, body } = await pod.call('GET', path);
      expect([path, status, body['code']]).toEqual([path, 404, 'not_found']);
    }
    for (const path of [
      session,
      `${session}/turns`,
      `${session}/turns/te1`,
      `${session}/events`,
      `${session}/stream`,
    ]) {
      const { status, body } = await pod.call('GET', path, { headers: { 'x-account-id': 'other' } });
      expect([path, status, body['code']]).toEqual([path, 404, 'not_found']);
    }
  });

  it.each([
    ...[
      'limit=0',
      'limit=1001',
      'limit=-1',
      'limit=1.5',
      'limit=x',
      'limit=',
      'limit=1&limit=2',
      'limit[]=1',
      'limits=1',
    ],
    ...[
      'after=x',
      'after=-1',
      'after=1&after=2',
      'after=99999999999999999999',
      'after=1e3',
      'after=%20',
      'after[a]=1',
      'after',
    ],
  ])('events?%s is refused', async (query) => {
    const { status, body } = await pod.call('GET', `${session}/events?${query}`);
    expect([status, body['code'], fieldsOf(body).length]).toEqual([400, 'validation_failed', 1]);
  });

  it.each(['__proto__=1', 'constructor=1', 'toString=1', '__proto__[a]=1'])('events?%s is refused', async (query) => {
    expect((await pod.call('GET', `${session}/events?${query}`)).status).toBe(400);
  });

  it.each([
    'state=done',
    'state=queued&state=running',
    'state=',
    'after=WzFd&after=WzFd',
    'after=1',
    'after=WyJ4Il0',
    'after=!!',
    'after=WzFdAA',
  ])('turns?%s is refused', async (query) => {
    const { status, body } = await pod.call('GET', `${session}/turns?${query}`);
    expect([status, body['code']]).toEqual([400, 'validation_failed']);
  });

  it.each(['after=WzFd', 'after=bnVsbA', 'after=x', 'limit=0'])('sessions?%s is refused', async (query) => {
    expect((await pod.call('GET', `/v1/sessions?${query}`)).status).toBe(400);
  });
});
