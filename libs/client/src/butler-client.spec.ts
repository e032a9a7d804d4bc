import { beforeEach, describe, expect, test } from '@jest/globals';
import { answers, ManualClock, refuses, ScriptedFetch, silent, unreachable } from '#test-kit';
import { ApiError } from './api.error.js';
import { ButlerClient, type ClientOptions } from './butler-client.js';
import { NetworkError } from './network.error.js';

const ACCEPTED = { sessionId: 's1', turnId: 't1', generation: 1, state: 'queued', seq: 1 };
const BUSY = refuses(503, 'draining', { 'retry-after': '2' });

let clock: ManualClock;
let net: ScriptedFetch;
let ids: number;

beforeEach(() => {
  clock = new ManualClock();
  net = new ScriptedFetch();
  ids = 0;
});

/** Jitter is always the least. */
function clientWith(options: Partial<ClientOptions> = {}): ButlerClient {
  const randomness = { id: () => `id-${++ids}`, fraction: () => 0 };
  return new ButlerClient({ baseUrl: 'http://pod', fetch: net.fetch, clock, randomness, ...options });
}

/** What a call comes to while the clock goes on by `ms`. */
async function outcome(call: Promise<unknown>, ms = 0): Promise<unknown> {
  const result = call.catch((error: unknown) => error);
  await clock.advance(ms);
  return Promise.race([result, Promise.resolve('still under way')]);
}

describe('what is sent', () => {
  test('a message gets a turnId of its own, and says whether it had been accepted before', async () => {
    net.willAnswer(answers(202, ACCEPTED), answers(202, ACCEPTED, { 'idempotency-replayed': 'true' }));
    const client = clientWith({ baseUrl: 'http://pod/' });
    expect(await client.post('s1', { content: 'hello', mode: 'steer' })).toEqual({ ...ACCEPTED, replayed: false });
    expect(await client.post('s1', { content: 'hello', turnId: 't1' })).toEqual({ ...ACCEPTED, replayed: true });
    expect(net.sent.map(({ method, url, body }) => [method, url, body])).toEqual([
      ['POST', 'http://pod/v1/sessions/s1/messages', { content: 'hello', mode: 'steer', turnId: 'id-1' }],
      ['POST', 'http://pod/v1/sessions/s1/messages', { content: 'hello', turnId: 't1' }],
    ]);
  });

  test('every act goes to its route with its body', async () => {
    const client = clientWith();
    net.willAnswer(...Array.from({ length: 7 }, () => answers(200, {})));
    await client.stop('s1', 't1', { generation: 2, reason: 'enough' });
    await client.retry('s1', 't1', 2);
    await client.edit('s1', 't1', 'new words');
    await client.turn('s1', 't1');
    await client.ownership('acme', 's1');
    await client.sessions.create({ title: 'mine' });
    await client.sessions.change('s1', { title: null });
    expect(net.sent.map(({ method, url, body }) => [method, url.slice('http://pod/v1'.length), body])).toEqual([
      ['POST', '/sessions/s1/turns/t1/stop', { generation: 2, reason: 'enough' }],
      ['POST', '/sessions/s1/turns/t1/retry', { generation: 2 }],
      ['PATCH', '/sessions/s1/turns/t1', { content: 'new words' }],
      ['GET', '/sessions/s1/turns/t1', undefined],
      ['GET', '/admin/sessions/acme/s1/ownership', undefined],
      ['POST', '/sessions', { title: 'mine', sessionId: 'id-1' }],
      ['PATCH', '/sessions/s1', { title: null }],
    ]);
  });

  test('address, token and headers are asked for before each attempt, so that a renewed one is used', async () => {
    net.willAnswer(BUSY, answers(200, {}));
    let attempts = 0;
    const client = clientWith({
      baseUrl: () => `http://pod-${++attempts}`,
      token: () => Promise.resolve(`token-${attempts}`),
      headers: { 'x-request-id': 'r1' },
    });
    await outcome(client.turn('s1', 't1'), 5000);
    expect(net.sent.map(({ url, headers }) => [new URL(url).host, headers.authorization])).toEqual([
      ['pod-1', 'Bearer token-1'],
      ['pod-2', 'Bearer token-2'],
    ]);
    expect(net.sent[0]!.headers).toEqual({
      accept: 'application/json',
      authorization: 'Bearer token-1',
      'x-request-id': 'r1',
    });
  });

  test('what is no id is never sent: it could lead to another route', async () => {
    const client = clientWith();
    for (const id of ['..', '.', 'a/b', '', 'ü']) await expect(client.turn('s1', id)).rejects.toThrow(TypeError);
    expect(net.sent).toEqual([]);
  });

  test('pages follow one another by their cursor, up to the last', async () => {
    const page = (events: number[], hasMore: boolean) =>
      answers(200, { events, nextAfter: events.at(-1) ?? 0, hasMore });
    net.willAnswer(page([1, 2], true), page([3, 4], true), page([5], false));
    const seen: unknown[] = [];
    for await (const { events } of clientWith().events('s1', { limit: 2 })) seen.push(...events);
    expect(seen).toEqual([1, 2, 3, 4, 5]);
    expect(net.sent.map(({ url }) => new URL(url).search)).toEqual([
      '?limit=2',
      '?after=2&limit=2',
      '?after=4&limit=2',
    ]);
  });

  test('sessions and turns go on behind an opaque cursor', async () => {
    net.willAnswer(
      answers(200, { sessions: [1], nextAfter: 'YQ', hasMore: true }),
      answers(200, { sessions: [2], nextAfter: null, hasMore: false }),
      answers(200, { turns: [], nextAfter: null, hasMore: false }),
    );
    const client = clientWith();
    for await (const page of client.sessions.list()) expect(page.sessions).toHaveLength(1);
    for await (const page of client.turns('s1', { after: 'Yg', state: 'queued' })) expect(page.turns).toEqual([]);
    expect(net.sent.map(({ url }) => new URL(url).search)).toEqual(['', '?after=YQ', '?after=Yg&state=queued']);
  });
});

describe('errors', () => {
  test('a refusal is an ApiError with its code, its facts and what the headers say', async () => {
    const problem = {
      type: 'x',
      title: 'x',
      status: 409,
      detail: 'It has ended.',
      code: 'turn_ended',
      state: 'stopped',
    };
    net.willAnswer(answers(409, problem, { 'x-request-id': 'r1' }));
    const error = (await outcome(clientWith().edit('s1', 't1', 'x'))) as ApiError;
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 409, code: 'turn_ended', message: 'It has ended.', requestId: 'r1' });
    expect([error.problem, error.retryAfterS, error.isRetryable]).toEqual([problem, null, false]);
  });

  test('what somebody between says is an ApiError of unknown code', async () => {
    net.willAnswer(
      () => new Response('<html>Forbidden</html>', { status: 403 }),
      () => new Response('"no"', { status: 404 }),
    );
    for (const status of [403, 404]) {
      expect(await outcome(clientWith().turn('s1', 't1'))).toMatchObject({ status, code: 'unknown', problem: null });
    }
  });

  test('an answer that breaks off, none in time, and no connection are NetworkErrors', async () => {
    net.willAnswer(unreachable, () => new Response('{"turnId":'), silent);
    const client = clientWith({ retry: { attempts: 1 }, timeoutMs: 3000 });
    const failed = (await outcome(client.turn('s1', 't1'))) as NetworkError;
    expect([failed instanceof NetworkError, failed.isRetryable, failed.cause]).toEqual([
      true,
      true,
      new TypeError('fetch failed'),
    ]);
    expect(await outcome(client.turn('s1', 't1'))).toBeInstanceOf(NetworkError);
    const late = client.turn('s1', 't1');
    expect(await outcome(late, 2999)).toBe('still under way');
    expect(await outcome(late, 1)).toBeInstanceOf(NetworkError);
    expect(net.sent[2]!.signal.aborted).toBe(true);
    expect(clock.pending).toBe(0);
  });
});

describe('retries', () => {
  test.each([
    [429, 'queue_full'],
    [503, 'draining'],
  ])('%i is sent again when the server says so, as it was', async (status, code) => {
    net.willAnswer(refuses(status, code, { 'retry-after': '2' }), answers(202, ACCEPTED));
    const call = clientWith().post('s1', { content: 'hello' });
    expect(await outcome(call, 2249)).toBe('still under way');
    expect(net.sent).toHaveLength(1);
    expect(await outcome(call, 1)).toMatchObject({ turnId: 't1' });
    expect(net.sent[1]).toMatchObject({ body: net.sent[0]!.body });
  });

  test('failures of the network, 502 and 504 are waited out, longer each time, a bounded number of times', async () => {
    const gateway = () => new Response('', { status: 504 });
    net.willAnswer(unreachable, gateway, refuses(502, 'x'), unreachable, gateway);
    const call = clientWith().stop('s1', 't1');
    const sentAfter: number[] = [];
    for (const ms of [0, 249, 1, 500, 1000, 2000, 60_000]) {
      await clock.advance(ms);
      sentAfter.push(net.sent.length);
    }
    expect(sentAfter).toEqual([1, 1, 2, 3, 4, 5, 5]);
    expect(await outcome(call)).toMatchObject({ status: 504 });
  });

  test('jitter comes on top of the wait', async () => {
    net.willAnswer(unreachable, answers(200, {}));
    const call = clientWith({ randomness: { id: () => 'x', fraction: () => 0.5 } }).turn('s1', 't1');
    expect(await outcome(call, 312)).toBe('still under way');
    expect(await outcome(call, 1)).toEqual({});
  });

  test('a change of a session whose answer was lost is not sent again, but one that was refused for now is', async () => {
    net.willAnswer(unreachable, BUSY, answers(200, {}));
    const client = clientWith();
    expect(await outcome(client.sessions.change('s1', { title: 'x' }))).toBeInstanceOf(NetworkError);
    expect(await outcome(client.sessions.change('s1', { title: 'x' }), 3000)).toEqual({});
  });

  test.each([400, 401, 403, 404, 409, 413, 500])('%i is not sent again', async (status) => {
    net.willAnswer(refuses(status, 'x'));
    expect(await outcome(clientWith().turn('s1', 't1'), 60_000)).toMatchObject({ status });
    expect(net.sent).toHaveLength(1);
  });

  test('a server that asks for too long a wait is not waited for', async () => {
    net.willAnswer(refuses(429, 'rate_limited', { 'retry-after': '61' }));
    expect(await outcome(clientWith().turn('s1', 't1'))).toMatchObject({ code: 'rate_limited', retryAfterS: 61 });
  });

  test('a signal ends the call with its reason: before it is sent, under way, and while it waits', async () => {
    const client = clientWith();
    const reason = new Error('enough');
    expect(await outcome(client.turn('s1', 't1', { signal: AbortSignal.abort(reason) }))).toBe(reason);
    expect(net.sent).toEqual([]);

    for (const answer of [silent, BUSY]) {
      net.willAnswer(answer);
      const leaving = new AbortController();
      const call = client.post('s1', { content: 'x' }, { signal: leaving.signal });
      expect(await outcome(call, 1)).toBe('still under way');
      leaving.abort(reason);
      expect(await outcome(call)).toBe(reason);
    }
    expect([net.sent.length, clock.pending]).toEqual([2, 0]);
  });
});
