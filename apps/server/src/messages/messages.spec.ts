import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Answered, type Asked, CalledPod, fieldsOf, MAX_BYTES } from '../../../../test/called-pod.js';

let pod: CalledPod;
beforeAll(async () => {
  pod = await CalledPod.start();
});
afterAll(() => pod.stop());

describe('messages', () => {
  const post = (sessionId: string, body: unknown, headers = {}): Promise<Answered> =>
    pod.call('POST', `/v1/sessions/${sessionId}/messages`, { body, headers });

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
      expect((await pod.call('GET', `/v1/sessions/m4/turns/${turnId}`)).body).toMatchObject({
        turnId,
        content: 'say x',
      });
    }
  });

  const turnOf = async (sessionId: string, turnId: string): Promise<Answered['body']> =>
    (await pod.call('GET', `/v1/sessions/${sessionId}/turns/${turnId}`)).body;
  const eventsOf = async (sessionId: string): Promise<{ turnId: string; type: string; data: { text?: string } }[]> =>
    (await pod.call('GET', `/v1/sessions/${sessionId}/events?after=0`)).body['events'] as never;
  const runs = async (sessionId: string, turnId: string): Promise<void> =>
    pod.until(async () => (await turnOf(sessionId, turnId))['state'] === 'running');

  it('of mode steer join the turn that runs at its next step', async () => {
    await post('m5', { turnId: 'first', content: 'tool sleep {"ms":300}\nhistory' });
    await runs('m5', 'first');
    const steer = await post('m5', { turnId: 'steers', content: 'say On it.', mode: 'steer' });
    expect([steer.status, steer.body['state']]).toEqual([202, 'queued']);
    await pod.until(async () => (await turnOf('m5', 'first'))['state'] === 'completed');
    const absorbedBy = { turnId: 'first', generation: 1 };
    expect(await turnOf('m5', 'steers')).toMatchObject({ mode: 'steer', state: 'completed', absorbedBy });
    const history = (await eventsOf('m5')).findLast(({ type }) => type === 'model.message')?.data.text;
    const said = (JSON.parse(history ?? '') as { role: string; content: string }[]).filter(
      ({ role }) => role === 'user',
    );
    expect(said.at(-1)?.content).toBe('say On it.');
  });

  it('of mode interrupt stop the turn that runs, once, and keep which it was', async () => {
    await post('m6', { turnId: 'long', content: 'sleep 60000' });
    await runs('m6', 'long');
    const message = { turnId: 'cuts-in', content: 'say Here.', mode: 'interrupt' };
    expect((await post('m6', message)).status).toBe(202);
    await pod.until(async () => (await turnOf('m6', 'cuts-in'))['state'] === 'completed');
    expect(await turnOf('m6', 'long')).toMatchObject({ state: 'stopped', stop: { by: 'dev' } });
    const said = (await eventsOf('m6')).find(({ turnId }) => turnId === 'cuts-in');
    expect(said?.data).toMatchObject({ mode: 'interrupt', interrupts: { turnId: 'long', generation: 1 } });
    expect((await post('m6', message)).headers.get('idempotency-replayed')).toBe('true');
  });

  it('that wait are edited, until they are taken up', async () => {
    await post('m7', { turnId: 'first7', content: 'sleep 60000' });
    await runs('m7', 'first7');
    await post('m7', { turnId: 'second', content: 'say Old.' });
    const edit = (id: string, body: object): Promise<Answered> =>
      pod.call('PATCH', `/v1/sessions/m7/turns/${id}`, { body });
    expect((await edit('second', { content: 'say New.' })).body).toMatchObject({
      state: 'queued',
      content: 'say New.',
    });
    const refused = await edit('first7', { content: 'say Late.' });
    expect([refused.status, refused.body['code'], refused.body['state']]).toEqual([409, 'turn_ended', 'running']);
    expect((await edit('first7', { content: 'sleep 60000' })).status).toBe(200);
    expect((await edit('unknown', { content: 'x' })).status).toBe(404);
    await pod.call('POST', '/v1/sessions/m7/turns/first7/stop', { body: {} });
    await pod.until(async () => (await edit('second', { content: 'say New.' })).body['state'] === 'completed');
    const texts = (await eventsOf('m7')).flatMap(({ type, data }) => (type === 'model.message' ? [data.text] : []));
    expect(texts).toEqual(['New.']);
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
    expect([problem['code'], fieldsOf(problem)]).toEqual(['validation_failed', fields]);
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
    const { status, body } = await pod.call('POST', '/v1/sessions/refused/messages', { raw });
    expect([status, body['code'], fieldsOf(body)]).toEqual([400, 'validation_failed', [field]]);
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
    ['no body', {}, 400, 'validation_failed'],
    ['no body, from a page elsewhere', { headers: { 'sec-fetch-site': 'cross-site' } }, 415, 'unsupported_media_type'],
    ['a body that is too large', { body: { content: 'x'.repeat(MAX_BYTES) } }, 413, 'payload_too_large'],
    ['a body far too large', { body: { content: 'x'.repeat(MAX_BYTES * 500) } }, 413, 'payload_too_large'],
  ])('as %s are refused', async (_, asked, status, code) => {
    const answer = await pod.call('POST', '/v1/sessions/refused/messages', asked);
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
    const { status, body } = await pod.call('POST', '/v1/sessions/refused/messages', { raw });
    expect([status, body['code']]).toEqual([413, 'payload_too_large']);
  });

  it('that were refused leave no session behind', async () => {
    expect((await pod.call('GET', '/v1/sessions/refused')).status).toBe(404);
  });
});
