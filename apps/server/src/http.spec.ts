import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { loadSettings } from '#platform';
import { type Pod, startPod } from './pod.js';

const MAX_BYTES = 8192;
let pod: Pod;

beforeAll(async () => {
  const settings = loadSettings({
    ...{ PORT: '0', DATABASE_URL: 'sqlite::memory:', AGENT: 'script', LOG_LEVEL: 'silent', POD_ID: 'pod' },
    ...{ MESSAGE_MAX_BYTES: String(MAX_BYTES), ALLOWED_HOSTS: 'butler.test' },
  });
  pod = await startPod({ settings });
});
afterAll(() => pod.stop());

interface Asked {
  headers?: Record<string, string>;
  body?: unknown;
  /** Sent as it is, instead of `body` as JSON. */
  raw?: string | Buffer | ReadableStream;
}
interface Answered {
  status: number;
  headers: Headers;
  body: Record<string, unknown>;
}

async function call(method: string, path: string, { headers, body, raw }: Asked = {}): Promise<Answered> {
  const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const response = await fetch(pod.url + path, {
    method,
    headers: { ...(sent !== undefined && { 'content-type': 'application/json' }), ...headers },
    body: sent as string,
    ...(raw instanceof ReadableStream && { duplex: 'half' }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: text ? (JSON.parse(text) as Answered['body']) : {},
  };
}

/** For what `fetch` would mend before it sends it. */
function sendAsIs(
  method: string,
  path: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; code: unknown }> {
  const { hostname, port } = new URL(pod.url);
  return new Promise((resolve, reject) => {
    request({ hostname, port, method, path, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      response.on('end', () => {
        const { code } = (text ? JSON.parse(text) : {}) as { code?: unknown };
        resolve({ status: response.statusCode ?? 0, code });
      });
    })
      .on('error', reject)
      .end();
  });
}

const paths = (body: Answered['body']): string[] =>
  ((body['errors'] ?? []) as { path: string }[]).map(({ path }) => path);

describe('messages', () => {
  const post = (sessionId: string, body: unknown, headers = {}): Promise<Answered> =>
    call('POST', `/v1/sessions/${sessionId}/messages`, { body, headers });

  it('are accepted, answered the same when sent again, and refused under the same turnId with other content', async () => {
    const message = { turnId: 't1', content: 'say hello', metadata: { b: 1, a: true } };
    const first = await post('m1', message);
    expect([first.status, first.headers.get('idempotency-replayed')]).toEqual([202, null]);
    expect(first.body).toEqual({ sessionId: 'm1', turnId: 't1', generation: 1, state: 'queued', seq: 1 });
    const again = await post('m1', { metadata: { a: true, b: 1 }, content: 'say hello', turnId: 't1' });
    expect([again.status, again.headers.get('idempotency-replayed'), again.body]).toEqual([202, 'true', first.body]);
    const other = await post('m1', { ...message, content: 'say bye' });
    expect([other.status, other.body['code'], other.body['turnId']]).toEqual([409, 'turn_mismatch', 't1']);
    expect((await post('m2', message)).status).toBe(409);
  });

  it('may be parts, and ids may be whatever the rule allows, compared byte by byte', async () => {
    const parts = [
      { type: 'text', text: ' ' },
      { type: 'file', url: 'https://example.org/a.png', mediaType: 'image/png', name: 'a.png' },
    ];
    expect((await post('m3', { content: parts })).status).toBe(202);
    for (const sessionId of ['A', 'a', '__proto__', 'constructor', 'toString', '...', '~', 'x'.repeat(128)]) {
      const { status, body } = await post(sessionId, { turnId: `t-${sessionId}`.slice(0, 128), content: 'say x' });
      expect([sessionId, status, body['sessionId'], body['seq']]).toEqual([sessionId, 202, sessionId, 1]);
    }
    for (const turnId of ['__proto__', 'constructor', 'hasOwnProperty']) {
      expect((await post('m4', { turnId, content: 'say x' })).body).toMatchObject({ turnId, generation: 1 });
      expect((await call('GET', `/v1/sessions/m4/turns/${turnId}`)).body).toMatchObject({ turnId, content: 'say x' });
    }
  });

  const file = { type: 'file', url: 'https://a.test/x', mediaType: 'text/plain' };
  it.each<[string, unknown, string[]]>([
    ['nothing', {}, ['content']],
    ['blank content', { content: ' \n\t ' }, ['content']],
    ['content null', { content: null }, ['content']],
    ['content a number', { content: 5 }, ['content']],
    ['content an object', { content: { type: 'text', text: 'x' } }, ['content']],
    ['no parts', { content: [] }, ['content']],
    ['blank parts', { content: [{ type: 'text', text: ' ' }] }, ['content']],
    ['too many parts', { content: Array.from({ length: 101 }, () => ({ type: 'text', text: 'x' })) }, ['content']],
    ['a part that is a text', { content: ['x'] }, ['content[0]']],
    ['a part that is null', { content: [null] }, ['content[0]']],
    ['a part that is a list', { content: [[{ type: 'text', text: 'x' }]] }, ['content[0]']],
    ['a part without type', { content: [{ text: 'x' }] }, ['content[0].type']],
    ['an unknown type', { content: [file, { type: 'video', url: 'x' }] }, ['content[1].type']],
    ['a type from the prototype', { content: [{ type: 'toString' }] }, ['content[0].type']],
    ['text that is a list', { content: [{ type: 'text', text: ['x'] }] }, ['content[0].text']],
    ['an unknown part field', { content: [{ type: 'text', text: 'x', url: 'y' }] }, ['content[0].url']],
    ['a file without url', { content: [{ type: 'file', mediaType: 'a/b' }] }, ['content[0].url']],
    ['a file with a bad url', { content: [{ ...file, url: 'no url' }] }, ['content[0].url']],
    ['a file with a bad type', { content: [{ ...file, mediaType: 'png' }] }, ['content[0].mediaType']],
    ['a file with a bad name', { content: [{ ...file, name: 5 }] }, ['content[0].name']],
    ['half a surrogate in content', { content: 'x\ud800' }, ['content']],
    ['half a surrogate in a part', { content: [{ type: 'text', text: '\udc00x' }] }, ['content[0].text']],
    ['an unknown field', { content: 'x', extra: 1 }, ['extra']],
    ['an unknown mode', { content: 'x', mode: 'shout' }, ['mode']],
    ['mode as a list', { content: 'x', mode: ['steer'] }, ['mode']],
    ['mode null', { content: 'x', mode: null }, ['mode']],
    ['turnId null', { content: 'x', turnId: null }, ['turnId']],
    ['turnId a number', { content: 'x', turnId: 7 }, ['turnId']],
    ['turnId a list', { content: 'x', turnId: ['a'] }, ['turnId']],
    ['turnId empty', { content: 'x', turnId: '' }, ['turnId']],
    ['turnId with a colon', { content: 'x', turnId: 'a:b' }, ['turnId']],
    ['turnId with a newline', { content: 'x', turnId: 'a\n' }, ['turnId']],
    ['turnId ..', { content: 'x', turnId: '..' }, ['turnId']],
    ['metadata a list', { content: 'x', metadata: ['a'] }, ['metadata']],
    ['metadata null', { content: 'x', metadata: null }, ['metadata']],
    ['nested metadata', { content: 'x', metadata: { a: { b: 1 } } }, ['metadata.a']],
    ['metadata with null', { content: 'x', metadata: { a: null } }, ['metadata.a']],
    ['a lone surrogate in a value', { content: 'x', metadata: { a: '\ud83d' } }, ['metadata.a']],
    [
      'a lone surrogate in a key',
      { content: 'x', metadata: { 'a\ud83d': 1 } },
      [expect.stringMatching(/^metadata\.a/) as unknown as string],
    ],
    ['metadata with too long a text', { content: 'x', metadata: { a: 'x'.repeat(4097) } }, ['metadata.a']],
    [
      'metadata with too many entries',
      { content: 'x', metadata: Object.fromEntries(Array.from({ length: 65 }, (_, n) => [n, n])) },
      ['metadata'],
    ],
    ['two faults', { turnId: ':', content: '' }, ['turnId', 'content']],
  ])('with %s are refused, and the field is named', async (_, body, fields) => {
    const { status, headers, body: problem } = await post('refused', body);
    expect([status, headers.get('content-type')]).toEqual([400, 'application/problem+json; charset=utf-8']);
    expect(problem).toMatchObject({ type: 'urn:butler:problem:validation_failed', title: 'Bad Request', status: 400 });
    expect([problem['code'], paths(problem)]).toEqual(['validation_failed', fields]);
  });

  it.each([
    ['{"content":"x","__proto__":{"mode":"reject"}}', '__proto__'],
    ['{"content":"x","constructor":{"prototype":{"a":1}}}', 'constructor'],
    ['{"content":"x","prototype":1}', 'prototype'],
    ['{"content":"x","hasOwnProperty":1}', 'hasOwnProperty'],
    ['{"content":"x","metadata":{"__proto__":1}}', 'metadata.__proto__'],
    ['{"content":"x","metadata":{"constructor":"y"}}', 'metadata.constructor'],
    ['{"content":[{"type":"text","text":"x","__proto__":{"text":"y"}}]}', 'content[0].__proto__'],
    ['{"content":"x","metadata":{"a":1e999}}', 'metadata.a'],
    ['[{"content":"x"}]', ''],
    [`{"content":${'['.repeat(3000)}${']'.repeat(3000)}}`, `content${'[0]'.repeat(15)}`],
  ])('%# with a reserved name, no finite number or no object are refused', async (raw, field) => {
    const { status, body } = await call('POST', '/v1/sessions/refused/messages', { raw });
    expect([status, body['code'], paths(body)]).toEqual([400, 'validation_failed', [field]]);
    expect(({} as Record<string, unknown>)['a']).toBeUndefined();
  });

  it.each<[string, Asked, number, string]>([
    ['broken JSON', { raw: '{"content":' }, 400, 'validation_failed'],
    ['a JSON text', { raw: '"x"' }, 400, 'validation_failed'],
    [
      'bytes that are no UTF-8',
      { raw: Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]) },
      400,
      'validation_failed',
    ],
    ['no content type', { raw: '{"content":"x"}', headers: { 'content-type': '' } }, 415, 'unsupported_media_type'],
    [
      'another content type',
      { raw: '{"content":"x"}', headers: { 'content-type': 'text/plain' } },
      415,
      'unsupported_media_type',
    ],
    [
      'a form',
      { raw: 'content=x', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
      415,
      'unsupported_media_type',
    ],
    [
      'another charset',
      { raw: '{}', headers: { 'content-type': 'application/json; charset=latin1' } },
      415,
      'unsupported_media_type',
    ],
    ['an unknown encoding', { raw: '{}', headers: { 'content-encoding': 'zip' } }, 415, 'unsupported_media_type'],
    ['no body', {}, 415, 'unsupported_media_type'],
    ['a body that is too large', { body: { content: 'x'.repeat(MAX_BYTES) } }, 413, 'payload_too_large'],
    ['a body far too large', { body: { content: 'x'.repeat(MAX_BYTES * 500) } }, 413, 'payload_too_large'],
  ])('as %s are refused', async (_, asked, status, code) => {
    const answer = await call('POST', '/v1/sessions/refused/messages', asked);
    expect([answer.status, answer.body['code']]).toEqual([status, code]);
    expect(answer.headers.get('x-request-id')).toBeTruthy();
  });

  it('that come in chunks are refused as soon as they are too large', async () => {
    const piece = Buffer.alloc(4096, 'x');
    const raw = new ReadableStream({
      start(controller) {
        controller.enqueue(Buffer.from('{"content":"'));
        for (let each = 0; each < 20; each++) controller.enqueue(piece);
        controller.close();
      },
    });
    const { status, body } = await call('POST', '/v1/sessions/refused/messages', { raw });
    expect([status, body['code']]).toEqual([413, 'payload_too_large']);
  });

  it('that were refused leave no session behind', async () => {
    expect((await call('GET', '/v1/sessions/refused')).status).toBe(404);
  });
});

describe('sessions', () => {
  it('are created once: the same body again is answered the same, another is refused', async () => {
    const body = { sessionId: 's1', title: 'One', metadata: { a: 1, b: 'x', c: false } };
    const first = await call('POST', '/v1/sessions', { body });
    expect(first.status).toBe(201);
    expect(first.body).toEqual({
      ...body,
      ...{ state: 'idle', lastSeq: 0, queued: 0, runningTurn: null },
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      lastActivityAt: expect.any(String),
    });
    expect(await call('POST', '/v1/sessions', { body })).toMatchObject({ status: 201, body: first.body });
    const other = await call('POST', '/v1/sessions', { body: { ...body, title: 'Two' } });
    expect([other.status, other.body['code']]).toEqual([409, 'session_exists']);
    expect((await call('GET', '/v1/sessions/s1')).body).toEqual(first.body);
  });

  it('get an id of the server when none is given, and have no title then', async () => {
    const { status, body } = await call('POST', '/v1/sessions', { body: {} });
    expect([status, typeof body['sessionId'], 'title' in body, 'metadata' in body]).toEqual([
      201,
      'string',
      false,
      false,
    ]);
  });

  it('are changed: what is left out stays, null takes it away', async () => {
    await call('POST', '/v1/sessions', { body: { sessionId: 's2', title: 'One', metadata: { a: 1 } } });
    const patch = async (body: unknown): Promise<Answered['body']> =>
      (await call('PATCH', '/v1/sessions/s2', { body })).body;
    expect(await patch({ title: 'Two' })).toMatchObject({ title: 'Two', metadata: { a: 1 } });
    expect(await patch({ metadata: { b: 2 } })).toMatchObject({ title: 'Two', metadata: { b: 2 } });
    expect(await patch({})).toMatchObject({ title: 'Two', metadata: { b: 2 } });
    const cleared = await patch({ title: null, metadata: null });
    expect(['title' in cleared, 'metadata' in cleared]).toEqual([false, false]);
    const absent = await call('PATCH', '/v1/sessions/absent', { body: { title: 'x' } });
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
    const answer = await call(method, `/v1/sessions${path}`, { body });
    expect([answer.status, paths(answer.body)]).toEqual([400, fields]);
  });

  it('are listed newest activity first, in pages that adjoin', async () => {
    const headers = { 'x-account-id': 'lister' };
    for (const sessionId of ['l1', 'l2', 'l3', 'l4', 'l5'])
      await call('POST', '/v1/sessions', { headers, body: { sessionId } });
    const all = (await call('GET', '/v1/sessions', { headers })).body as {
      sessions: { sessionId: string }[];
      hasMore: boolean;
    };
    expect([all.sessions.length, all.hasMore]).toEqual([5, false]);
    const seen: string[] = [];
    for (let query = '?limit=2'; ;) {
      const { body } = await call('GET', `/v1/sessions${query}`, { headers });
      const page = body as { sessions: { sessionId: string }[]; nextAfter: string; hasMore: boolean };
      seen.push(...page.sessions.map(({ sessionId }) => sessionId));
      if (!page.hasMore) break;
      query = `?limit=2&after=${page.nextAfter}`;
    }
    expect(seen).toEqual(all.sessions.map(({ sessionId }) => sessionId));
    expect(new Set(seen).size).toBe(5);
    expect((await call('GET', '/v1/sessions', { headers: { 'x-account-id': 'nobody' } })).body).toEqual({
      ...{ sessions: [], nextAfter: null, hasMore: false },
    });
  });
});

describe('turns and events', () => {
  const session = '/v1/sessions/te';
  let ended: Record<string, unknown>;

  beforeAll(async () => {
    await call('POST', `${session}/messages`, { body: { turnId: 'te1', content: 'say hello', metadata: { a: 1 } } });
    await call('POST', `${session}/messages`, {
      body: { turnId: 'te2', content: [{ type: 'text', text: 'say bye' }] },
    });
    do ended = (await call('GET', `${session}/turns/te2`)).body;
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
    const first = (await call('GET', `${session}/turns?limit=1`)).body as {
      turns: { turnId: string }[];
      nextAfter: string;
    };
    expect(first).toMatchObject({ turns: [{ turnId: 'te1', metadata: { a: 1 } }], hasMore: true });
    const second = await call('GET', `${session}/turns?limit=1&after=${first.nextAfter}`);
    expect(second.body).toMatchObject({ turns: [{ turnId: 'te2' }], hasMore: false });
    expect((await call('GET', `${session}/turns?state=completed`)).body['turns']).toHaveLength(2);
    expect((await call('GET', `${session}/turns?state=queued`)).body).toEqual({
      turns: [],
      nextAfter: null,
      hasMore: false,
    });
  });

  it('events are read from a cursor, each once; behind the last one there is nothing, and the cursor stays', async () => {
    const all = (await call('GET', `${session}/events`)).body as { events: { seq: number }[]; nextAfter: number };
    expect(all.events.map(({ seq }) => seq)).toEqual(all.events.map((_, at) => at + 1));
    expect(all.nextAfter).toBe(all.events.length);
    const page = (await call('GET', `${session}/events?after=1&limit=2`)).body;
    expect(page).toEqual({ events: all.events.slice(1, 3), nextAfter: 3, hasMore: true });
    expect((await call('GET', `${session}/events?after=999`)).body).toEqual({
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
      const { status, body } = await call('GET', path);
      expect([path, status, body['code']]).toEqual([path, 404, 'not_found']);
    }
    for (const path of [
      session,
      `${session}/turns`,
      `${session}/turns/te1`,
      `${session}/events`,
      `${session}/stream`,
    ]) {
      const { status, body } = await call('GET', path, { headers: { 'x-account-id': 'other' } });
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
    const { status, body } = await call('GET', `${session}/events?${query}`);
    expect([status, body['code'], paths(body).length]).toEqual([400, 'validation_failed', 1]);
  });

  it.each(['__proto__=1', 'constructor=1', 'toString=1', '__proto__[a]=1'])('events?%s is refused', async (query) => {
    expect((await call('GET', `${session}/events?${query}`)).status).toBe(400);
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
    const { status, body } = await call('GET', `${session}/turns?${query}`);
    expect([status, body['code']]).toEqual([400, 'validation_failed']);
  });

  it.each(['after=WzFd', 'after=bnVsbA', 'after=x', 'limit=0'])('sessions?%s is refused', async (query) => {
    expect((await call('GET', `/v1/sessions?${query}`)).status).toBe(400);
  });
});

describe('ids in the path', () => {
  const bad = [
    '.',
    '..',
    '%2e',
    '%2E%2e',
    'a:b',
    '%7Bx%7D',
    'a%0a',
    'caf%C3%A9',
    'a%20b',
    'a%2Fb',
    'x'.repeat(129),
    '%00',
  ];
  it.each(bad)('%s is refused, and the field is named', async (id) => {
    for (const path of [`/v1/sessions/${id}`, `/v1/sessions/${id}/stream`, `/v1/sessions/s1/turns/${id}`]) {
      expect([path, await sendAsIs('GET', path)]).toEqual([path, { status: 400, code: 'validation_failed' }]);
    }
    expect((await sendAsIs('GET', `/v1/admin/sessions/${id}/s1/ownership`)).status).toBe(400);
  });

  it.each(['/v1/sessions/%', '/v1/sessions/%E0%A4%A', '/v1/sessions/%FF/events', '/%'])(
    '%s is no path',
    async (path) => {
      const { status, code } = await sendAsIs('GET', path);
      expect([[400, 404].includes(status), typeof code]).toEqual([true, 'string']);
    },
  );
});

describe('callers', () => {
  it.each([
    ['x-account-id', ''],
    ['x-account-id', 'a:b'],
    ['x-account-id', '..'],
    ['x-account-id', 'x'.repeat(129)],
    ['x-account-id', 'a, b'],
    ['x-user-id', 'x'.repeat(257)],
  ])('with %s: %s are not known', async (name, value) => {
    const { status, body } = await call('GET', '/v1/sessions', { headers: { [name]: value } });
    expect([status, body['code']]).toEqual([401, 'unauthorized']);
  });

  it.each([
    ['user', 200, 403, 403],
    ['admin', 200, 200, 404],
    ['user admin', 200, 200, 404],
    ['operator', 200, 200, 200],
    ['', 403, 403, 403],
    ['root', 403, 403, 403],
  ])('with the scope "%s" may do what it allows', async (scope, own, ownAdmin, othersAdmin) => {
    const headers = { 'x-scope': scope };
    await call('POST', '/v1/sessions', { body: { sessionId: 'scoped' } });
    await call('POST', '/v1/sessions', { body: { sessionId: 'scoped' }, headers: { 'x-account-id': 'other' } });
    const statuses = await Promise.all(
      [
        '/v1/sessions/scoped',
        '/v1/admin/sessions/dev/scoped/ownership',
        '/v1/admin/sessions/other/scoped/ownership',
      ].map(async (path) => (await call('GET', path, { headers })).status),
    );
    expect(statuses).toEqual([own, ownAdmin, othersAdmin]);
  });

  it.each([
    ['evil.example', 403],
    ['localhost.evil.example', 403],
    ['127.0.0.1.evil.example:80', 403],
    ['localhost', 200],
    ['LOCALHOST:99', 200],
    ['[::1]:99', 200],
    ['127.0.0.1', 200],
    ['butler.test:3000', 200],
  ])('of the host %s are let in or not, whatever they ask for', async (host, status) => {
    for (const path of ['/v1/sessions', '/health/live', '/openapi.json']) {
      expect([path, (await sendAsIs('GET', path, { host })).status]).toEqual([path, status]);
    }
  });
});

describe('every answer', () => {
  it('has a request id: the caller’s where that is one, else a new one', async () => {
    const given = await call('GET', '/health/live', { headers: { 'x-request-id': 'mine-1' } });
    expect(given.headers.get('x-request-id')).toBe('mine-1');
    for (const path of ['/v1/sessions', '/nowhere', '/docs', '/v1/sessions?limit=x']) {
      const response = await fetch(pod.url + path, { headers: { 'x-request-id': 'no id' } });
      expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
      await response.text();
    }
  });

  it.each([
    ['GET', '/'],
    ['GET', '/v1'],
    ['GET', '/v2/sessions'],
    ['DELETE', '/v1/sessions/s1'],
    ['PUT', '/v1/sessions/s1'],
    ['POST', '/v1/sessions/s1'],
    ['GET', '/v1/sessions/s1/messages'],
    ['POST', '/v1/sessions/s1/turns/t1/stop'],
    ['GET', '/v1/sessions/s1/'.concat('x/'.repeat(50))],
  ])('to %s %s, which is no route, is a problem', async (method, path) => {
    const { status, headers, body } = await call(method, path, method === 'POST' ? { body: {} } : {});
    expect([status, headers.get('content-type'), body['code']]).toEqual([
      404,
      'application/problem+json; charset=utf-8',
      'not_found',
    ]);
  });

  it('to HEAD is one without a body, also where the answer would never end', async () => {
    for (const path of ['/v1/sessions', '/v1/sessions/s1/stream'])
      expect(await sendAsIs('HEAD', path)).toMatchObject({ status: 200 });
  });

  it('has the headers of helmet, and says nothing of what the server is made of', async () => {
    const { headers } = await call('GET', '/health/live');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-security-policy')).not.toContain('upgrade-insecure-requests');
    expect(headers.get('x-powered-by')).toBeNull();
  });
});

describe('the description', () => {
  interface Operation {
    responses: Record<string, { content?: Record<string, unknown> }>;
    requestBody?: unknown;
  }
  it('names every route, its answers and its problems, and refers to nothing that is not there', async () => {
    const { body } = await call('GET', '/openapi.json');
    const routes = body['paths'] as Record<string, Record<string, Operation>>;
    expect(
      Object.entries(routes)
        .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method} ${path}`))
        .sort(),
    ).toEqual([
      'get /health/live',
      'get /health/ready',
      'get /health/startup',
      'get /v1/admin/sessions/{account}/{sessionId}/ownership',
      'get /v1/sessions',
      'get /v1/sessions/{sessionId}',
      'get /v1/sessions/{sessionId}/events',
      'get /v1/sessions/{sessionId}/stream',
      'get /v1/sessions/{sessionId}/turns',
      'get /v1/sessions/{sessionId}/turns/{turnId}',
      'patch /v1/sessions/{sessionId}',
      'post /v1/sessions',
      'post /v1/sessions/{sessionId}/messages',
    ]);
    for (const [path, methods] of Object.entries(routes)) {
      for (const [method, { responses, requestBody }] of Object.entries(methods)) {
        if (path.startsWith('/health')) continue;
        expect([path, method, Object.keys(responses)]).toEqual([
          path,
          method,
          expect.arrayContaining(['400', '401', '403', '500']),
        ]);
        expect([path, method, requestBody !== undefined]).toEqual([path, method, method !== 'get']);
        for (const { content } of Object.values(responses)) expect(content).toBeDefined();
      }
    }
    const names = Object.keys((body['components'] as { schemas: object }).schemas);
    const referred = [...JSON.stringify(body).matchAll(/"#\/components\/schemas\/([^"]+)"/g)].map(([, name]) => name);
    expect(referred.filter((name) => !names.includes(name!))).toEqual([]);
  });

  it('is a page too', async () => {
    const response = await fetch(`${pod.url}/docs`);
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const page = await response.text();
    for (const [, part] of page.matchAll(/(?:src|href)="(\.[^"]+)"/g)) {
      expect([part, (await fetch(new URL(part!, `${pod.url}/docs`))).status]).toEqual([part, 200]);
    }
  });
});

describe('health', () => {
  it('is told in the format of terminus', async () => {
    expect((await call('GET', '/health/live')).body).toEqual({ status: 'ok', info: {}, error: {}, details: {} });
    expect((await call('GET', '/health/startup')).status).toBe(200);
    const up = { ledger: { status: 'up' }, coordination: { status: 'up' }, serving: { status: 'up' } };
    expect(await call('GET', '/health/ready')).toMatchObject({
      status: 200,
      body: { status: 'ok', info: up, error: {}, details: up },
    });
  });
});
