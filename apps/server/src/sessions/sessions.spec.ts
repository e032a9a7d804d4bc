import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Answered, CalledPod, fieldsOf } from '../../../../test/called-pod.js';

let pod: CalledPod;
beforeAll(async () => {
  pod = await CalledPod.start();
});
afterAll(() => pod.stop());

describe('sessions', () => {
  it('are created once: the same body again is answered the same, another is refused', async () => {
    const body = { sessionId: 's1', title: 'One', metadata: { a: 1, b: 'x', c: false } };
    const first = await pod.call('POST', '/v1/sessions', { body });
    expect(first.status).toBe(201);
    expect(first.body).toEqual({
      ...body,
      ...{ state: 'idle', lastSeq: 0, queued: 0, runningTurn: null },
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      lastActivityAt: expect.any(String),
    });
    expect(await pod.call('POST', '/v1/sessions', { body })).toMatchObject({ status: 201, body: first.body });
    const other = await pod.call('POST', '/v1/sessions', { body: { ...body, title: 'Two' } });
    expect([other.status, other.body['code']]).toEqual([409, 'session_exists']);
    expect((await pod.call('GET', '/v1/sessions/s1')).body).toEqual(first.body);
  });

  it('get an id of the server when none is given, and have no title then', async () => {
    const { status, body } = await pod.call('POST', '/v1/sessions', { body: {} });
    expect([status, typeof body['sessionId'], 'title' in body, 'metadata' in body]).toEqual([
      201,
      'string',
      false,
      false,
    ]);
  });

  it('are changed: what is left out stays, null takes it away', async () => {
    await pod.call('POST', '/v1/sessions', { body: { sessionId: 's2', title: 'One', metadata: { a: 1 } } });
    const patch = async (body: unknown): Promise<Answered['body']> =>
      (await pod.call('PATCH', '/v1/sessions/s2', { body })).body;
    expect(await patch({ title: 'Two' })).toMatchObject({ title: 'Two', metadata: { a: 1 } });
    expect(await patch({ metadata: { b: 2 } })).toMatchObject({ title: 'Two', metadata: { b: 2 } });
    expect(await patch({})).toMatchObject({ title: 'Two', metadata: { b: 2 } });
    const cleared = await patch({ title: null, metadata: null });
    expect(['title' in cleared, 'metadata' in cleared]).toEqual([false, false]);
    const absent = await pod.call('PATCH', '/v1/sessions/absent', { body: { title: 'x' } });
    expect([absent.status, absent.body['code']]).toEqual([404, 'not_found']);
  });

  it.each<[string, string, unknown, string[]]>([
    ['POST', '', { sessionId: 'a b' }, ['sessionId']],
    ['POST', '', { sessionId: null }, ['sessionId']],
    ['POST', '', { title: 5 }, ['title']],
    ['POST', '', { title: null }, ['title']],
    ['POST', '', { title: '\ud800' }, ['title']],
    ['POST', '', { title: 'x'.repeat(257) }, ['title']],
    ['POST', '', { metadata: [] }, ['metadata']],
    ['POST', '', { titel: 'x' }, ['titel']],
    ['PATCH', '/s1', { title: ['x'] }, ['title']],
    ['PATCH', '/s1', { metadata: { a: {} } }, ['metadata.a']],
    ['PATCH', '/s1', { sessionId: 's9' }, ['sessionId']],
  ])('%s%s with %j is refused, and the field is named', async (method, path, body, fields) => {
    const answer = await pod.call(method, `/v1/sessions${path}`, { body });
    expect([answer.status, fieldsOf(answer.body)]).toEqual([400, fields]);
  });

  it('are listed newest activity first, in pages that adjoin', async () => {
    const headers = { 'x-account-id': 'lister' };
    for (const sessionId of ['l1', 'l2', 'l3', 'l4', 'l5'])
      await pod.call('POST', '/v1/sessions', { headers, body: { sessionId } });
    const all = (await pod.call('GET', '/v1/sessions', { headers })).body as {
      sessions: { sessionId: string }[];
      hasMore: boolean;
    };
    expect([all.sessions.length, all.hasMore]).toEqual([5, false]);
    const seen: string[] = [];
    for (let query = '?limit=2'; ;) {
      const { body } = await pod.call('GET', `/v1/sessions${query}`, { headers });
      const page = body as { sessions: { sessionId: string }[]; nextAfter: string; hasMore: boolean };
      seen.push(...page.sessions.map(({ sessionId }) => sessionId));
      if (!page.hasMore) break;
      query = `?limit=2&after=${page.nextAfter}`;
    }
    expect(seen).toEqual(all.sessions.map(({ sessionId }) => sessionId));
    expect(new Set(seen).size).toBe(5);
    expect((await pod.call('GET', '/v1/sessions', { headers: { 'x-account-id': 'nobody' } })).body).toEqual({
      ...{ sessions: [], nextAfter: null, hasMore: false },
    });
  });
});
