// What a careless or hostile client sends, and what it must be told. Nothing here may leave a trace in the ledger.
import type { ErrorCode } from '#protocol';
import type { RawRequest } from './harness/raw-http.js';

interface HostileRequest {
  name: string;
  request: RawRequest;
  code: ErrorCode;
}

export const MAX_BYTES = 4096;
/** A session that exists, of account acme; its events are 1 to 5 or so. */
const KNOWN = '/v1/sessions/known';
const MESSAGES = `${KNOWN}/messages`;
const JSON_TYPE = { 'content-type': 'application/json' };
const ACME = { 'x-account-id': 'acme', 'x-user-id': 'ann', 'x-scope': 'user' };

const post = (path: string, body: RawRequest['body'], more: Partial<RawRequest> = {}): RawRequest => ({
  ...{ method: 'POST', path, body, ...more },
  headers: { ...ACME, ...JSON_TYPE, ...more.headers },
});
const patch = (turnId: string, body: RawRequest['body'], more: Partial<RawRequest> = {}): RawRequest => ({
  ...post(`${KNOWN}/turns/${turnId}`, body, more),
  method: 'PATCH',
});
const get = (path: string, headers: RawRequest['headers'] = {}): RawRequest => ({
  path,
  headers: { ...ACME, ...headers },
});
const table = (code: ErrorCode, cases: Record<string, RawRequest>): HostileRequest[] =>
  Object.entries(cases).map(([name, request]) => ({ name, request, code }));

const BAD_IDS: Record<string, string> = {
  'a colon': 'a:b',
  braces: '%7B007%7D',
  'a newline': 'a%0Ab',
  'a NUL': 'a%00b',
  'an accent': 'caf%C3%A9',
  'an overlong encoding': '%C0%AE%C0%AE',
  'a percent sign alone': '100%',
  'an encoded slash': 'a%2Fb',
  'an encoded backslash': 'a%5Cb',
  'an encoded dot': '%2E',
  'two encoded dots': '%2e%2E',
  'a space': 'a%20b',
  'a star': '*',
  '129 characters': 'x'.repeat(129),
};

const BAD_CONTENTS: Record<string, string> = {
  'nothing at all': '{}',
  null: '{"content":null}',
  'a number': '{"content":7}',
  'an object': '{"content":{"text":"say x"}}',
  'an empty text': '{"content":""}',
  'blanks alone': '{"content":" \\n\\t\\u00a0"}',
  'no parts': '{"content":[]}',
  'blank parts alone': '{"content":[{"type":"text","text":" "}]}',
  'a text among parts': '{"content":["say x"]}',
  'an array among parts': '{"content":[[{"type":"text","text":"x"}]]}',
  'an unknown part': '{"content":[{"type":"image","url":"x"}]}',
  'a part without type': '{"content":[{"text":"x"}]}',
  'a part with a field too many': '{"content":[{"type":"text","text":"x","bold":true}]}',
  'a part whose text is an array': '{"content":[{"type":"text","text":["x"]}]}',
  'a file without a media type': '{"content":[{"type":"file","url":"https://example.com/a"}]}',
  'a file whose url is an object': '{"content":[{"type":"file","url":{},"mediaType":"text/plain"}]}',
  'a lone surrogate': '{"content":"say \\ud83d"}',
  'a lone surrogate in a part': '{"content":[{"type":"text","text":"\\udc00"}]}',
  'arrays nested a thousand deep': `{"content":${'['.repeat(1000)}${']'.repeat(1000)}}`,
};

const BAD_FIELDS: Record<string, string> = {
  'an unknown field': '{"content":"say x","priority":1}',
  __proto__: '{"content":"say x","__proto__":{"mode":"reject"}}',
  constructor: '{"content":"say x","constructor":{"prototype":{"x":1}}}',
  '__proto__ in metadata': '{"content":"say x","metadata":{"__proto__":{"x":1}}}',
  '__proto__ in a part': '{"content":[{"type":"text","text":"x","__proto__":{"y":1}}]}',
  'an unknown mode': '{"content":"say x","mode":"now"}',
  'a mode that every object has': '{"content":"say x","mode":"constructor"}',
  'metadata that is an array': '{"content":"say x","metadata":["a"]}',
  'metadata that is text': '{"content":"say x","metadata":"a"}',
  'metadata with null in it': '{"content":"say x","metadata":{"a":null}}',
  'metadata with an object in it': '{"content":"say x","metadata":{"a":{"b":1}}}',
  'metadata with a lone surrogate in it': '{"content":"say x","metadata":{"a":"\\ud800"}}',
  'metadata with a lone surrogate as a name': '{"content":"say x","metadata":{"\\ud800":1}}',
  'metadata with a number beyond all numbers': '{"content":"say x","metadata":{"a":1e999}}',
  'a turnId that is a number': '{"content":"say x","turnId":7}',
  'a turnId that is an array': '{"content":"say x","turnId":["t1"]}',
  'an empty turnId': '{"content":"say x","turnId":""}',
  'a turnId with a slash': '{"content":"say x","turnId":"a/b"}',
  'a turnId with a newline at its end': '{"content":"say x","turnId":"t1\\n"}',
  'a turnId of 129 characters': `{"content":"say x","turnId":"${'x'.repeat(129)}"}`,
  'a turnId of two dots': '{"content":"say x","turnId":".."}',
};

/** What one may say when one posts, or reads, but not when one edits. */
const BAD_EDITS: Record<string, string> = {
  'a mode': '{"content":"say x","mode":"steer"}',
  'a turnId': '{"content":"say x","turnId":"t1"}',
  metadata: '{"content":"say x","metadata":{}}',
  'a state': '{"content":"say x","state":"queued"}',
  'a generation': '{"content":"say x","generation":1}',
  'an initiator': '{"content":"say x","initiator":"bob"}',
  __proto__: '{"content":"say x","__proto__":{"content":"say y"}}',
  constructor: '{"content":"say x","constructor":{"prototype":{"x":1}}}',
};

const BAD_BODIES: Record<string, string | Buffer> = {
  'no JSON at all': 'say x',
  'half an object': '{"content":"say x"',
  'an object and more': '{"content":"say x"}}',
  'single quotes': "{'content':'say x'}",
  'an array': '[{"content":"say x"}]',
  'a text': '"say x"',
  'a number': '7',
  null: 'null',
  'nothing at all': '',
  'bytes that are no UTF-8': Buffer.from([...Buffer.from('{"content":"say '), 0xff, 0xfe, ...Buffer.from('"}')]),
  'arrays nested without end': '['.repeat(2000),
};

const BAD_SESSIONS: Record<string, string> = {
  'a sessionId with a colon': '{"sessionId":"a:b"}',
  'a sessionId that is an object': '{"sessionId":{}}',
  'a sessionId of one dot': '{"sessionId":"."}',
  'a title that is a number': '{"title":7}',
  'a title with a lone surrogate': '{"title":"\\udfff"}',
  'an unknown field': '{"account":"other"}',
  __proto__: '{"sessionId":"fresh","__proto__":{"title":"x"}}',
  'metadata with an array in it': '{"metadata":{"a":[]}}',
};

const BAD_QUERIES = [
  ...['0', '-1', '1001', '1.5', '1e2', '0x10', 'ten', '', '%20', '99999999999999999999'].map(
    (value) => `limit=${value}`,
  ),
  ...['limit=1&limit=2', 'limit[]=1', 'limit[a]=1', 'after=1&after=2', 'after[]=1', 'after[__proto__]=1'],
];
const BAD_SEQS = ['-1', '1.5', '1e2', 'abc', '0x1', '%00', '', '99999999999999999999'].map((value) => `after=${value}`);

const inAll = <T>(cases: Record<string, T>, to: (value: T) => RawRequest, what: string): Record<string, RawRequest> =>
  Object.fromEntries(Object.entries(cases).map(([name, value]) => [`${what}: ${name}`, to(value)]));

const validation = table('validation_failed', {
  ...inAll(BAD_IDS, (id) => get(`/v1/sessions/${id}`), 'a session id with'),
  ...inAll(BAD_IDS, (id) => post(`/v1/sessions/${id}/messages`, '{"content":"say x"}'), 'a post to a session id with'),
  ...inAll(BAD_IDS, (id) => get(`${KNOWN}/turns/${id}`), 'a turn id with'),
  ...inAll(BAD_CONTENTS, (body) => post(MESSAGES, body), 'content'),
  ...inAll(BAD_FIELDS, (body) => post(MESSAGES, body), 'a field'),
  ...inAll(BAD_BODIES, (body) => post(MESSAGES, body), 'a body'),
  ...inAll(BAD_IDS, (id) => patch(id, '{"content":"say x"}'), 'an edit of a turn id with'),
  ...inAll(BAD_CONTENTS, (body) => patch('t1', body), 'an edited content'),
  ...inAll(BAD_EDITS, (body) => patch('t1', body), 'an edit with a field too many'),
  ...inAll(BAD_BODIES, (body) => patch('t1', body), "an edit's body"),
  ...inAll(BAD_SESSIONS, (body) => post('/v1/sessions', body), 'a new session'),
  ...Object.fromEntries(
    ['/v1/sessions', `${KNOWN}/turns`, `${KNOWN}/events`].flatMap((path) =>
      BAD_QUERIES.map((query) => [`a query: ${path}?${query}`, get(`${path}?${query}`)]),
    ),
  ),
  ...Object.fromEntries(
    [`${KNOWN}/events`, `${KNOWN}/stream`].flatMap((path) =>
      BAD_SEQS.map((query) => [`a cursor: ${path}?${query}`, get(`${path}?${query}`)]),
    ),
  ),
  'a cursor that the server never made': get('/v1/sessions?after=bm90IG9uZQ'),
  'a cursor of other things': get(`/v1/sessions?after=${Buffer.from('[{},"x"]').toString('base64url')}`),
  'an unknown state': get(`${KNOWN}/turns?state=asleep`),
  'a state that every object has': get(`${KNOWN}/turns?state=constructor`),
  'a Last-Event-ID that is no number': get(`${KNOWN}/stream`, { 'last-event-id': 'abc' }),
  'a Last-Event-ID past the last event': get(`${KNOWN}/stream`, { 'last-event-id': '1000000' }),
  'an after past the last event': get(`${KNOWN}/stream?after=1000000`),
});

const size = table('payload_too_large', {
  'a body over the limit that says its length': post(MESSAGES, JSON.stringify({ content: 'x'.repeat(MAX_BYTES) })),
  'a body over the limit in chunks': post(MESSAGES, JSON.stringify({ content: 'x'.repeat(MAX_BYTES) }), {
    chunked: true,
  }),
  'an edit over the limit': patch('t1', JSON.stringify({ content: 'x'.repeat(MAX_BYTES) })),
  'a new session over the limit': post('/v1/sessions', JSON.stringify({ title: 'x'.repeat(MAX_BYTES) })),
});

const mediaTypes = table('unsupported_media_type', {
  'no media type': { method: 'POST', path: MESSAGES, headers: ACME, body: '{"content":"say x"}' },
  'a form': post(MESSAGES, 'content=say+x', { headers: { 'content-type': 'application/x-www-form-urlencoded' } }),
  'plain text, as a foreign page can send': post(MESSAGES, '{"content":"say x"}', {
    headers: { 'content-type': 'text/plain' },
  }),
  'an edit as plain text': patch('t1', '{"content":"say x"}', { headers: { 'content-type': 'text/plain' } }),
  'an edit as a patch document': patch('t1', '[{"op":"replace","path":"/content","value":"say x"}]', {
    headers: { 'content-type': 'application/json-patch+json' },
  }),
  'a type that only begins like JSON': post(MESSAGES, '{"content":"say x"}', {
    headers: { 'content-type': 'application/jsonx' },
  }),
  'a character set that is not known': post(MESSAGES, '{"content":"say x"}', {
    headers: { 'content-type': 'application/json; charset=latin1' },
  }),
  'an encoding that is not known': post(MESSAGES, '{"content":"say x"}', {
    headers: { 'content-encoding': 'x-secret' },
  }),
});

const identity = table('unauthorized', {
  'an account with a colon': get('/v1/sessions', { 'x-account-id': 'a:b' }),
  'an account with a brace': post(MESSAGES, '{"content":"say x"}', { headers: { 'x-account-id': '{007}' } }),
  'an account of two dots': get('/v1/sessions', { 'x-account-id': '..' }),
  'an account that is empty': get('/v1/sessions', { 'x-account-id': '' }),
  'an account of 129 characters': get('/v1/sessions', { 'x-account-id': 'x'.repeat(129) }),
  'an account with an accent': get('/v1/sessions', { 'x-account-id': 'caf\u00e9' }),
  'two accounts': get('/v1/sessions', { 'x-account-id': ['acme', 'other'] }),
  'a user of 257 characters': get('/v1/sessions', { 'x-user-id': 'u'.repeat(257) }),
});

const permission = table('forbidden', {
  'a foreign Host': get(KNOWN, { host: 'evil.example' }),
  'a Host that begins like ours': get(KNOWN, { host: 'localhost.evil.example' }),
  'a Host that ends like ours': get(KNOWN, { host: 'evil-localhost:3000' }),
  'a post for a foreign Host': post(MESSAGES, '{"content":"say x"}', { headers: { host: 'evil.example:3000' } }),
  'a user at the admin door': get('/v1/admin/sessions/acme/known/ownership'),
});

const strangers = { 'x-account-id': 'other', 'x-scope': 'user admin' };
const absent = table('not_found', {
  'an unknown session': get('/v1/sessions/unknown'),
  'the events of an unknown session': get('/v1/sessions/unknown/events'),
  'the turns of an unknown session': get('/v1/sessions/unknown/turns'),
  'the stream of an unknown session': get('/v1/sessions/unknown/stream'),
  'an unknown turn': get(`${KNOWN}/turns/unknown`),
  'a turn under another session': get('/v1/sessions/second/turns/t1'),
  'the session of another account': get(KNOWN, strangers),
  'the events of another account': get(`${KNOWN}/events`, strangers),
  'the turns of another account': get(`${KNOWN}/turns`, strangers),
  'a turn of another account': get(`${KNOWN}/turns/t1`, strangers),
  'the stream of another account': get(`${KNOWN}/stream`, strangers),
  "an admin at another account's door": get('/v1/admin/sessions/acme/known/ownership', strangers),
  'an edit of an unknown turn': patch('unknown', '{"content":"say x"}'),
  'an edit in an unknown session': { ...patch('', '{"content":"say x"}'), path: '/v1/sessions/unknown/turns/unknown' },
  'an edit of another account': patch('t1', '{"content":"say x"}', { headers: strangers }),
  'an unknown route': get('/v1/secrets'),
  'a route beside ours': get('/v1/sessionsx'),
  'a path that climbs': get('/v1/sessions/../../etc/passwd'),
  'an unknown route with a body': post('/v2/sessions', '{"content":"say x"}'),
  'a wrong method': { method: 'PUT', path: KNOWN, headers: { ...ACME, ...JSON_TYPE }, body: '{}' },
  'a wrong method on a list': { method: 'DELETE', path: '/v1/sessions', headers: ACME },
  'a POST where one reads': post(`${KNOWN}/events`, '{"content":"say x"}'),
  'a method of its own': { method: 'PURGE', path: KNOWN, headers: ACME },
  'a TRACE': { method: 'TRACE', path: KNOWN, headers: ACME },
});

const used = table('turn_mismatch', {
  'a turnId that was used': post(MESSAGES, '{"turnId":"t1","content":"say else"}'),
});
const foreign = table('turn_mismatch', {
  "an edit of another user's message": patch('t1', '{"content":"say x"}', { headers: { 'x-user-id': 'bob' } }),
  'an edit under another session': {
    ...patch('', '{"content":"say x"}'),
    path: '/v1/sessions/second/turns/t1',
  },
});
const over = table('turn_ended', {
  'an edit of a message that has run': patch('t1', '{"content":"say x"}'),
});
const exists = table('session_exists', {
  'a sessionId that was used': post('/v1/sessions', '{"sessionId":"known","title":"else"}'),
});

export const HOSTILE_REQUESTS = [
  ...[validation, size, mediaTypes, identity, permission, absent, used, foreign, over, exists].flat(),
];

const head = (line: string, ...headers: string[]): string =>
  [line, ...headers, 'Connection: close', '', ''].join('\r\n');
const HOST = 'Host: localhost';

/** Bytes that are not HTTP, or not quite. Some are answered, some only hung up on. */
export const HOSTILE_BYTES: Record<string, string | Buffer> = {
  'no HTTP at all': 'hello?\r\n\r\n',
  'a TLS greeting': Buffer.from([
    0x16,
    0x03,
    0x01,
    0x02,
    0x00,
    0x01,
    0x00,
    0x01,
    0xfc,
    0x03,
    0x03,
    ...Array<number>(64).fill(7),
  ]),
  'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  NULs: Buffer.alloc(2048),
  'a method that does not exist': head('FETCH /v1/sessions HTTP/1.1', HOST),
  'a version that does not exist': head('GET /v1/sessions HTTP/9.9', HOST),
  'no Host': head('GET /v1/sessions HTTP/1.1'),
  'no Host in HTTP/1.0': head('GET /v1/sessions HTTP/1.0'),
  'two Hosts': head('GET /v1/sessions HTTP/1.1', HOST, 'Host: evil.example'),
  'a URL for another server': head('GET http://evil.example/v1/sessions HTTP/1.1', 'Host: evil.example'),
  'a tunnel': head('CONNECT evil.example:443 HTTP/1.1', HOST),
  'an upgrade': head('GET /v1/sessions HTTP/1.1', HOST, 'Connection: Upgrade', 'Upgrade: h2c', 'x-account-id: :'),
  'a length that is no number': head('POST /v1/sessions HTTP/1.1', HOST, 'Content-Length: ten'),
  'a length below zero': head('POST /v1/sessions HTTP/1.1', HOST, 'Content-Length: -1'),
  'two lengths': `${head('POST /v1/sessions HTTP/1.1', HOST, 'Content-Length: 2', 'Content-Length: 3')}{}`,
  'a length and chunks': `${head('POST /v1/sessions HTTP/1.1', HOST, 'Content-Length: 2', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
  'a chunk of no size': `${head('POST /v1/sessions HTTP/1.1', HOST, 'Transfer-Encoding: chunked', 'Content-Type: application/json')}zz\r\n{}\r\n`,
  'a header without a name': head('GET /v1/sessions HTTP/1.1', HOST, ': nobody'),
  'a header with a space in its name': head('GET /v1/sessions HTTP/1.1', HOST, 'x account: acme'),
  'a header that is folded': head('GET /v1/sessions HTTP/1.1', HOST, 'x-account-id: ac', ' me:'),
  'a header of 100 kB': head('GET /v1/sessions HTTP/1.1', HOST, `x-long: ${'x'.repeat(100_000)}`),
  'a path of 100 kB': head(`GET /${'x'.repeat(100_000)} HTTP/1.1`, HOST),
  'a thousand headers': head(
    'GET /v1/sessions HTTP/1.1',
    HOST,
    ...Array.from({ length: 1000 }, (_, at) => `x-${at}: ${at}`),
  ),
  'a body that never comes': head(
    `POST ${MESSAGES} HTTP/1.1`,
    HOST,
    'Content-Type: application/json',
    'Content-Length: 500',
  ),
  'half a body': `${head(`POST ${MESSAGES} HTTP/1.1`, HOST, 'Content-Type: application/json', 'Content-Length: 500')}{"content":`,
  'an expectation nobody can meet': head('GET /v1/sessions HTTP/1.1', HOST, 'Expect: a-miracle', 'x-account-id: :'),
};
