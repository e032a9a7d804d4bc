import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Event, TurnState } from '#protocol';
import { type Answer, Caller } from './harness/caller.js';
import type { ServersPlace } from './harness/places.js';
import type { Pod } from './harness/pod.js';
import { Stage } from './harness/stage.js';
import { until } from './harness/until.js';

const SETTINGS = { SWEEP_INTERVAL_MS: '60000', LOG_LEVEL: 'warn', QUEUE_MAX_PENDING: '3' };
const ann = new Caller('acme', 'ann', 'user');
const bob = new Caller('acme', 'bob', 'user');
const admin = new Caller('acme', 'ada', 'user admin');

let stage: Stage<ServersPlace>;
let pods: [Pod, Pod];

beforeAll(async () => {
  stage = await Stage.onServers();
  await stage.watch(async () => void (pods = await stage.start(['a', 'b'], SETTINGS)));
});
afterAll(() => stage.end());

const callsOf = (turn: string): string[] =>
  stage.calls().flatMap((call) => (call.turn === turn ? [`${call.generation} ${call.key}`] : []));
const of = (events: readonly Event[], turnId: string, generation: number): Event['type'][] =>
  events.flatMap((event) => (event.turnId === turnId && event.generation === generation ? [event.type] : []));

function expectRefusal(answer: Answer<unknown>, code: string, facts: object = {}, status = 409): void {
  expect([answer.status, answer.body]).toEqual([status, expect.objectContaining({ status, code, ...facts })]);
}

/** A turn in a session of its own that has come out so. */
async function ended(session: string, state: TurnState): Promise<string> {
  const turnId = `${session}.1`;
  const last = { completed: 'say done', failed: 'throw no', stopped: 'sleep 60000' }[state as 'stopped'];
  await ann.say(pods[0], session, `say one\ntool append {"file":"${session}","line":"x"}\n${last}`, turnId);
  if (state === 'stopped') {
    await until('it is at its sleep', () => callsOf(turnId).includes('1 model:3'));
    await ann.stop(pods[1], session, turnId);
  }
  expect(await ann.ended(pods[1], session, turnId)).toMatchObject({ state });
  return turnId;
}

test.each(['completed', 'failed', 'stopped'] as const)(
  'a turn that is %s begins again in its next generation, with a clean slate, behind what was said since',
  async (state) => {
    const session = `r-${state}`;
    const turnId = await ended(session, state);
    await ann.say(pods[0], session, 'say between', `${session}.2`);
    await ann.ended(pods[0], session, `${session}.2`);
    const { lastSeq } = await ann.session(pods[0], session);

    const { status, headers, body } = await ann.retry(pods[1], session, turnId, 1);
    expect([status, headers.has('idempotency-replayed')]).toEqual([202, false]);
    expect(body).toEqual({ sessionId: session, turnId, generation: 2, state: 'queued', seq: lastSeq + 1 });
    if (state === 'stopped') {
      await until('it is at its sleep', () => callsOf(turnId).includes('2 model:3'));
      expect(await ann.turn(pods[0], session, turnId)).toMatchObject({ state: 'running', stop: null, endedAt: null });
      await ann.stop(pods[0], session, turnId, { generation: 2 });
    }
    expect(await ann.ended(pods[0], session, turnId)).toMatchObject({
      ...{ generation: 2, state, attempts: 1, queueSeq: lastSeq + 1, initiator: 'ann', parent: null },
      error: state === 'failed' ? { code: 'agent_error', message: 'no' } : null,
    });
    const steps = ['model:1', 'model:2', 'tool:model-2-1', ...(state === 'failed' ? [] : ['model:3'])];
    expect(callsOf(turnId)).toEqual([...steps.map((key) => `1 ${key}`), ...steps.map((key) => `2 ${key}`)]);
    const events = await ann.events(pods[0], session);
    expect(events[lastSeq]).toMatchObject({
      type: 'turn.queued',
      turnId,
      generation: 2,
      data: { retryOf: 1, by: 'ann' },
    });
    const turns = await ann.turns(pods[1], session);
    expect(turns.map((turn) => turn.turnId)).toEqual([`${session}.2`, turnId]);
  },
);

test('a retry that is sent again is one retry and answered as the first time, at once or later, at any pod', async () => {
  const turnId = await ended('again', 'completed');
  const many = await Promise.all([...pods, ...pods, ...pods].map((pod) => ann.retry(pod, 'again', turnId, 1)));
  const [{ body }] = many as [Answer<object>];
  expect(many.map((answer) => [answer.status, answer.body])).toEqual(many.map(() => [202, body]));
  expect(many.filter(({ headers }) => headers.get('idempotency-replayed') === 'true')).toHaveLength(many.length - 1);
  await ann.ended(pods[0], 'again', turnId);
  const late = await ann.retry(pods[1], 'again', turnId, 1);
  expect([late.status, late.body, late.headers.get('idempotency-replayed')]).toEqual([202, body, 'true']);
  const events = await ann.events(pods[0], 'again');
  expect(events.filter(({ type }) => type === 'turn.queued')).toHaveLength(1);
  expect(of(events, turnId, 2)).toContain('turn.completed');
});

test('what is late for an older generation changes nothing: a stop, a retry, the POST', async () => {
  const turnId = await ended('late', 'completed');
  const first = { turnId, content: (await ann.turn(pods[0], 'late', turnId)).content! };
  const earlier = await ann.retry(pods[0], 'late', turnId, 1);
  await ann.ended(pods[0], 'late', turnId);
  await ann.say(pods[0], 'late', 'sleep 60000', 'late.2');
  await ann.retry(pods[1], 'late', turnId, 2);
  const events = await ann.events(pods[0], 'late');
  const facts = { turnId, generation: 3, state: 'queued' };
  for (const generation of [1, 2]) {
    expectRefusal(await ann.stop(pods[1], 'late', turnId, { generation }), 'stale_generation', facts);
  }
  const again = await ann.retry(pods[1], 'late', turnId, 1);
  expect([again.status, again.body, again.headers.get('idempotency-replayed')]).toEqual([202, earlier.body, 'true']);
  const resent = await ann.post(pods[1], 'late', first);
  expect([resent.status, resent.headers.get('idempotency-replayed')]).toEqual([202, 'true']);
  expect(resent.body).toEqual({ sessionId: 'late', turnId, generation: 1, state: 'queued', seq: 1 });
  expect(await ann.events(pods[0], 'late')).toEqual(events);
  await ann.stop(pods[0], 'late', 'late.2');
  expect(await ann.ended(pods[1], 'late', turnId)).toMatchObject({ generation: 3, state: 'completed' });
});

test('only a turn that has ended, of this session and user, in this generation, with a message, is retried', async () => {
  const turnId = await ended('which', 'completed');
  await ann.say(pods[0], 'which', 'sleep 60000', 'which.2');
  await until('it runs', () => callsOf('which.2').length > 0);
  await ann.say(pods[0], 'which', 'say queued', 'which.3');
  await ann.stop(pods[0], 'which', 'which.unborn');
  const before = await stage.place.rows();
  const refused: [Answer<unknown>, string, object, number?][] = [
    [
      await ann.retry(pods[1], 'which', 'which.2', 1),
      'turn_ended',
      { turnId: 'which.2', generation: 1, state: 'running' },
    ],
    [
      await ann.retry(pods[1], 'which', 'which.3', 1),
      'turn_ended',
      { turnId: 'which.3', generation: 1, state: 'queued' },
    ],
    [await ann.retry(pods[1], 'which', turnId, 2), 'stale_generation', { turnId, generation: 1, state: 'completed' }],
    [await ann.retry(pods[1], 'which', 'which.unborn', 1), 'turn_stopped', { generation: 1, state: 'stopped' }],
    [await ann.retry(pods[1], 'which', 'unheard-of', 1), 'not_found', {}, 404],
    [await ann.retry(pods[1], 'elsewhere', turnId, 1), 'turn_mismatch', { turnId }],
    [await bob.retry(pods[1], 'which', turnId, 1), 'turn_mismatch', { turnId }],
  ];
  for (const [answer, code, facts, status] of refused) expectRefusal(answer, code, facts, status);
  expect(await stage.place.rows()).toEqual(before);

  expect(await admin.retry(pods[1], 'which', turnId, 1)).toMatchObject({ status: 202, body: { generation: 2 } });
  await ann.stop(pods[0], 'which', 'which.2');
  expect(await ann.ended(pods[0], 'which', turnId)).toMatchObject({ initiator: 'ann', state: 'completed' });
});

test('into a session that is full is refused, and nothing is written', async () => {
  const turnId = await ended('full', 'failed');
  await ann.say(pods[0], 'full', 'sleep 60000', 'full.2');
  await until('it runs', () => callsOf('full.2').length > 0);
  for (const at of [3, 4, 5]) await ann.say(pods[1], 'full', 'say more', `full.${at}`);
  const before = await stage.place.rows();
  const answer = await ann.retry(pods[1], 'full', turnId, 1);
  expectRefusal(answer, 'queue_full', {}, 429);
  expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(await stage.place.rows()).toEqual(before);
  await ann.stop(pods[0], 'full', 'full.2');
  await ann.ended(pods[0], 'full', 'full.5');
});

test('a retry that was stopped before it came is refused with the generation that was stopped, and that one may be retried', async () => {
  const turnId = await ended('ahead', 'completed');
  const ahead = await ann.stop(pods[0], 'ahead', turnId, { generation: 2, reason: 'not again' });
  expect(ahead.body).toEqual({ sessionId: 'ahead', turnId, generation: 2, state: 'stopped', already: false });
  expect((await ann.stop(pods[1], 'ahead', turnId, { generation: 2 })).body).toMatchObject({ already: true });
  expectRefusal(await ann.retry(pods[1], 'ahead', turnId, 1), 'turn_stopped', {
    turnId,
    generation: 2,
    state: 'stopped',
  });
  expect(await ann.turn(pods[1], 'ahead', turnId)).toMatchObject({
    ...{ generation: 2, state: 'stopped', stop: { by: 'ann', reason: 'not again' } },
  });
  expect(callsOf(turnId).filter((call) => call.startsWith('2 '))).toEqual([]);
  expect((await ann.retry(pods[0], 'ahead', turnId, 2)).body).toMatchObject({ generation: 3, state: 'queued' });
  expect(await ann.ended(pods[1], 'ahead', turnId)).toMatchObject({ generation: 3, state: 'completed', stop: null });
  const events = await ann.events(pods[0], 'ahead');
  expect(of(events, turnId, 2)).toEqual(['turn.stopped']);
});

test('turns are listed in the order in which they run, after stops and retries, in pages too', async () => {
  await ann.say(pods[0], 'order', 'sleep 60000', 'order.1');
  for (const at of [2, 3, 4]) await ann.say(pods[at % 2]!, 'order', `say ${at}`, `order.${at}`);
  await ann.stop(pods[1], 'order', 'order.3');
  await ann.stop(pods[1], 'order', 'order.unborn');
  await ann.retry(pods[0], 'order', 'order.3', 1);
  await ann.stop(pods[0], 'order', 'order.1');
  await ann.ended(pods[0], 'order', 'order.1');
  await ann.ended(pods[0], 'order', 'order.3');
  await ann.say(pods[0], 'order', 'say 5', 'order.5');
  await ann.ended(pods[0], 'order', 'order.5');

  const names = ['order.1', 'order.2', 'order.4', 'order.3', 'order.5'];
  const turns = await ann.turns(pods[1], 'order');
  expect(turns.map(({ turnId, generation }) => [turnId, generation])).toEqual(
    names.map((name) => [name, name === 'order.3' ? 2 : 1]),
  );
  expect(turns.map(({ state }) => state)).toEqual(['stopped', ...Array<string>(4).fill('completed')]);
  const started = (await ann.events(pods[0], 'order')).filter(({ type }) => type === 'turn.started');
  expect(started.map(({ turnId }) => turnId)).toEqual(names);
  const paged: string[] = [];
  for (let query = '?limit=2'; ;) {
    const page = await ann.get<{ turns: { turnId: string }[]; nextAfter: string; hasMore: boolean }>(
      pods[0],
      `/v1/sessions/order/turns${query}`,
    );
    paged.push(...page.turns.map(({ turnId }) => turnId));
    if (!page.hasMore) break;
    query = `?limit=2&after=${page.nextAfter}`;
  }
  expect(paged).toEqual(names);
  const stopped = await ann.get<{ turns: { turnId: string }[] }>(pods[0], '/v1/sessions/order/turns?state=stopped');
  expect(stopped.turns.map(({ turnId }) => turnId)).toEqual(['order.1']);
});
