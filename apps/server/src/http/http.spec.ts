import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { CalledPod } from '../../../../test/called-pod.js';

let pod: CalledPod;
beforeAll(async () => {
  pod = await CalledPod.start();
});
afterAll(() => pod.stop());

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
      expect([path, await pod.sendAsIs('GET', path)]).toEqual([path, { status: 400, code: 'validation_failed' }]);
    }
    expect((await pod.sendAsIs('GET', `/v1/admin/sessions/${id}/s1/ownership`)).status).toBe(400);
  });

  it.each(['/v1/sessions/%', '/v1/sessions/%E0%A4%A', '/v1/sessions/%FF/events', '/%'])(
    '%s is no path',
    async (path) => {
      const { status, code } = await pod.sendAsIs('GET', path);
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
    const { status, body } = await pod.call('GET', '/v1/sessions', { headers: { [name]: value } });
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
    await pod.call('POST', '/v1/sessions', { body: { sessionId: 'scoped' } });
    await pod.call('POST', '/v1/sessions', { body: { sessionId: 'scoped' }, headers: { 'x-account-id': 'other' } });
    const statuses = await Promise.all(
      [
        '/v1/sessions/scoped',
        '/v1/admin/sessions/dev/scoped/ownership',
        '/v1/admin/sessions/other/scoped/ownership',
      ].map(async (path) => (await pod.call('GET', path, { headers })).status),
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
    for (const path of ['/v1/sessions', '/openapi.json']) {
      expect([path, (await pod.sendAsIs('GET', path, { host })).status]).toEqual([path, status]);
    }
    // Probes call by address.
    expect((await pod.sendAsIs('GET', '/health/live', { host })).status).toBe(200);
  });
});

describe('every answer', () => {
  it('has a request id: the caller’s where that is one, else a new one', async () => {
    const given = await pod.call('GET', '/health/live', { headers: { 'x-request-id': 'mine-1' } });
    expect(given.headers.get('x-request-id')).toBe('mine-1');
    for (const path of ['/v1/sessions', '/nowhere', '/docs', '/v1/sessions?limit=x']) {
      const response = await fetch(pod.url + path, { headers: { 'x-request-id': 'no id' } });
      expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
      await response.text();
    }
  });

  it('to a call without a body is that to an empty one, unless a page elsewhere makes it', async () => {
    const stop = '/v1/sessions/bare/turns/unborn/stop';
    const elsewhere = await pod.call('POST', stop, { headers: { 'sec-fetch-site': 'cross-site' } });
    expect([elsewhere.status, elsewhere.body['code']]).toEqual([415, 'unsupported_media_type']);
    expect((await pod.call('POST', stop)).body).toMatchObject({ state: 'stopped', already: false });
  });

  it.each([
    ['GET', '/'],
    ['GET', '/v1'],
    ['GET', '/v2/sessions'],
    ['DELETE', '/v1/sessions/s1'],
    ['PUT', '/v1/sessions/s1'],
    ['POST', '/v1/sessions/s1'],
    ['GET', '/v1/sessions/s1/messages'],
    ['POST', '/v1/sessions/s1/turns/t1/cancel'],
    ['GET', '/v1/sessions/s1/'.concat('x/'.repeat(50))],
  ])('to %s %s, which is no route, is a problem', async (method, path) => {
    const { status, headers, body } = await pod.call(method, path, method === 'POST' ? { body: {} } : {});
    expect([status, headers.get('content-type'), body['code']]).toEqual([
      404,
      'application/problem+json; charset=utf-8',
      'not_found',
    ]);
  });

  it('to HEAD is one without a body, also where the answer would never end', async () => {
    await pod.call('POST', '/v1/sessions', { body: { sessionId: 's1' } });
    for (const path of ['/v1/sessions', '/v1/sessions/s1/stream'])
      expect(await pod.sendAsIs('HEAD', path)).toMatchObject({ status: 200 });
  });

  it('has the headers of helmet, and says nothing of what the server is made of', async () => {
    const { headers } = await pod.call('GET', '/health/live');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-security-policy')).not.toContain('upgrade-insecure-requests');
    expect(headers.get('x-powered-by')).toBeNull();
  });
});

describe('health', () => {
  it('is told in the format of terminus', async () => {
    expect((await pod.call('GET', '/health/live')).body).toEqual({ status: 'ok', info: {}, error: {}, details: {} });
    expect((await pod.call('GET', '/health/startup')).status).toBe(200);
    const up = { ledger: { status: 'up' }, coordination: { status: 'up' }, serving: { status: 'up' } };
    expect(await pod.call('GET', '/health/ready')).toMatchObject({
      status: 200,
      body: { status: 'ok', info: up, error: {}, details: up },
    });
  });
});
