import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Event } from '#protocol';
import { type Answer, Caller } from './harness/caller.js';
import type { ServersPlace } from './harness/places.js';
import type { Pod } from './harness/pod.js';
import { sendRequest } from './harness/raw-http.js';
import { Stage } from './harness/stage.js';
import { until } from './harness/until.js';
import { Watcher } from './harness/watcher.js';

/** No sweep: whoever runs a turn hears of its stop because it was told. */
const SETTINGS = { SWEEP_INTERVAL_MS: '60000', LOG_LEVEL: 'warn' };
/** How soon a stop reaches a running turn, and a watcher the turn's end (I6). */
const AT_ONCE_MS = 1000;
const REASON_MAX = 1024;
const ann = new Caller('acme', 'ann', 'user');
const bob = new Caller('acme', 'bob', 'user');
const admin = new Caller('acme', 'ada', 'user admin');

let stage: Stage<ServersPlace>;
let pods: [Pod, Pod, Pod];

beforeAll(async () => {
  stage = await Stage.onServers();
  await stage.watch(async () => void (pods = await stage.start(['a', 'b', 'c'], SETTINGS)));
});
afterAll(() => stage.end());

const of = (events: readonly Event[], turnId: string): Event[] => events.filter((event) => event.turnId === turnId);
const begun = (turn: string): boolean => stage.calls().some((call) => call.turn === turn);

/** A session with a turn that has ended, one that runs and one that waits behind it: `<session>.ended` and so on. */
async function inEveryState(session: string, caller = ann): Promise<void> {
  await caller.say(pods[0], session, 'say done', `${session}.ended`);
  await caller.ended(pods[0], session, `${session}.ended`);
  await caller.say(pods[0], session, 'sleep 60000', `${session}.running`);
  await until('it runs', () => begun(`${session}.running`));
  await caller.say(pods[1], session, 'say never', `${session}.queued`);
}

async function stopAll(session: string): Promise<void> {
  for (const turnId of [`${session}.queued`, `${session}.running`]) {
    await admin.stop(pods[2], session, turnId);
    await admin.ended(pods[0], session, turnId);
  }
}

function expectRefusal(answer: Answer<unknown>, status: number, code: string): void {
  expect([answer.status, answer.body]).toEqual([status, expect.objectContaining({ status, code })]);
  expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json\b/);
}

describe('a stop answers what it has decided', () => {
  test('of an unborn, a queued, a running and an ended turn, at any pod; asked again it has changed nothing', async () => {
    await inEveryState('s1');
    const states = { unborn: 'stopped', queued: 'stopped', running: 'stop_requested', ended: 'completed' };
    for (const [name, state] of Object.entries(states)) {
      const turnId = `s1.${name}`;
      const answer = await ann.stop(pods[2], 's1', turnId);
      const body = { sessionId: 's1', turnId, generation: 1, state, already: name === 'ended' };
      expect([answer.status, answer.body]).toEqual([202, body]);
      const { state: ended } = await ann.ended(pods[1], 's1', turnId);
      expect(ended).toBe(name === 'ended' ? 'completed' : 'stopped');
      const events = await ann.events(pods[1], 's1');
      expect((await ann.stop(pods[0], 's1', turnId, { generation: 1, reason: 'again' })).body).toEqual({
        ...{ ...body, state: ended, already: true },
      });
      expect(await ann.events(pods[1], 's1')).toEqual(events);
    }
    expect(begun('s1.queued')).toBe(false);
  });

  test('with the reason kept as it was given, as long as it may be', async () => {
    const reason = `\u0000 \u{1f600} <b> ' " \\ ${'x'.repeat(REASON_MAX)}`.slice(0, REASON_MAX);
    expect((await ann.stop(pods[0], 's2', 's2.1', { reason })).status).toBe(202);
    expect(await ann.turn(pods[1], 's2', 's2.1')).toMatchObject({ stop: { by: 'ann', reason } });
    expect((await ann.events(pods[1], 's2'))[0]!.data).toEqual({ by: 'ann', reason, gate: 'stop' });
    await ann.stop(pods[0], 's2', 's2.2');
    expect((await ann.turn(pods[1], 's2', 's2.2')).stop).toEqual({ by: 'ann', at: expect.any(String) });
  });

  test('and refuses a generation that is not the present one, changing nothing', async () => {
    await inEveryState('s3');
    const events = await ann.events(pods[0], 's3');
    const named: [string, number, object][] = [
      ['unborn', 2, {}],
      ['queued', 2, { generation: 1, state: 'queued' }],
      ['running', 2, { generation: 1, state: 'running' }],
      ['ended', 3, { generation: 1, state: 'completed' }],
      ['running', 2 ** 31 - 1, { generation: 1, state: 'running' }],
    ];
    for (const [name, generation, facts] of named) {
      const answer = await ann.stop(pods[1], 's3', `s3.${name}`, { generation });
      expectRefusal(answer, 409, 'stale_generation');
      expect(answer.body).toMatchObject({ turnId: `s3.${name}`, ...facts });
    }
    expect(await ann.events(pods[0], 's3')).toEqual(events);
    await stopAll('s3');
  });
});

describe('what a stop and a retry refuse before they ask the ledger', () => {
  const GENERATIONS = ['0', '-1', '1.5', '2147483648', '1e999', '"1"', 'null', 'true', '[1]', '{}'];
  const REASONS = {
    ...{ 'a number': '7', null: 'null', 'an array': '["x"]', 'half a surrogate pair': '"\\ud83d"' },
    ...{ 'the other half': '"\\udc00 x"', 'too many characters': `"${'x'.repeat(REASON_MAX + 1)}"` },
  };
  /** What is called, what is wrong with it, the body, the field that is named. */
  const BODIES: [act: string, name: string, body: string, field: string][] = [
    ...['stop', 'retry'].flatMap((act): [string, string, string, string][] => [
      ...GENERATIONS.map((value): [string, string, string, string] => {
        return [act, `generation ${value}`, `{"generation":${value}}`, 'generation'];
      }),
      [act, 'an unknown field', '{"generation":1,"force":true}', 'force'],
      [act, '__proto__', '{"generation":1,"__proto__":{"x":1}}', '__proto__'],
      [act, 'an array', '[]', ''],
      [act, 'a text', '"t1"', ''],
      [act, 'half an object', '{"generation":1', ''],
    ]),
    ['retry', 'no generation', '{}', 'generation'],
    ['retry', 'a reason', '{"generation":1,"reason":"x"}', 'reason'],
    ...Object.entries(REASONS).map(([name, value]): [string, string, string, string] => {
      return ['stop', `a reason of ${name}`, `{"reason":${value}}`, 'reason'];
    }),
  ];
  const IDS = {
    ...{ 'a colon': 'a%3Ab', 'a slash': 'a%2Fb', braces: '%7B007%7D', 'a NUL': 'a%00b', 'an accent': 'caf%C3%A9' },
    ...{ 'two dots': '%2e%2e', 'a space': 'a%20b', '129 characters': 'x'.repeat(129), 'an overlong dot': '%C0%AE' },
  };
  const headers = { ...ann.headers, 'content-type': 'application/json' };

  async function expectRefused(path: string, body: string): Promise<{ errors?: { path: string }[] }> {
    const before = await stage.place.rows();
    const answer = await sendRequest(pods[0], { method: 'POST', path, headers, body });
    const problem = JSON.parse(answer.text) as { code: string; errors?: { path: string }[] };
    expect([answer.status, problem.code]).toEqual([400, 'validation_failed']);
    expect(await stage.place.rows()).toEqual(before);
    return problem;
  }

  test.each(BODIES)('%s with %s', async (act, _name, body, field) => {
    const { errors = [] } = await expectRefused(`/v1/sessions/b1/turns/t1/${act}`, body);
    if (field !== '') expect(errors.map(({ path }) => path)).toEqual([field]);
  });

  test.each(Object.entries(IDS))('an id with %s, of a session or a turn', async (_name, id) => {
    for (const act of ['stop', 'retry']) {
      await expectRefused(`/v1/sessions/${id}/turns/t1/${act}`, '{"generation":1}');
      await expectRefused(`/v1/sessions/b1/turns/${id}/${act}`, '{"generation":1}');
    }
  });
});

describe('a turn that was stopped before its message came', () => {
  test('is shown by its id only; its message is refused at every pod, however often, and the ledger says so once', async () => {
    await ann.stop(pods[0], 'u1', 'u1.1', { reason: 'changed my mind' });
    await ann.say(pods[1], 'u1', 'say other', 'u1.2');
    expect(await ann.turn(pods[1], 'u1', 'u1.1')).toEqual({
      ...{ sessionId: 'u1', turnId: 'u1.1', generation: 1, state: 'stopped', kind: 'user', mode: 'enqueue' },
      ...{ content: null, initiator: 'ann', parent: null, attempts: 0, queueSeq: null, absorbedBy: null, error: null },
      stop: { by: 'ann', reason: 'changed my mind', at: expect.any(String) },
      ...{ acceptedAt: null, startedAt: null, endedAt: expect.any(String) },
    });
    expect((await ann.turns(pods[2], 'u1')).map(({ turnId }) => turnId)).toEqual(['u1.2']);

    const posts = pods.flatMap((pod) =>
      ['say one', 'say two'].map((content) => ann.post(pod, 'u1', { turnId: 'u1.1', content })),
    );
    for (const answer of await Promise.all(posts)) {
      expectRefusal(answer, 409, 'turn_stopped');
      expect(answer.body).toMatchObject({ turnId: 'u1.1', generation: 1, state: 'stopped' });
    }
    await ann.ended(pods[0], 'u1', 'u1.2');
    expect(of(await ann.events(pods[0], 'u1'), 'u1.1').map(({ type, data }) => [type, data])).toEqual([
      ['turn.stopped', { by: 'ann', reason: 'changed my mind', gate: 'stop' }],
      ['message.refused', { code: 'turn_stopped', initiator: 'ann' }],
    ]);
    expect(begun('u1.1')).toBe(false);
  });

  test('by another user than the one who posts is not theirs: turn_mismatch, and nothing is noted', async () => {
    await bob.stop(pods[0], 'u2', 'u2.1');
    const before = await ann.events(pods[1], 'u2');
    expectRefusal(await ann.post(pods[1], 'u2', { turnId: 'u2.1', content: 'say x' }), 409, 'turn_mismatch');
    expectRefusal(await ann.stop(pods[1], 'u2', 'u2.1'), 409, 'turn_mismatch');
    expect(await ann.events(pods[1], 'u2')).toEqual(before);
    expectRefusal(await bob.post(pods[1], 'u2', { turnId: 'u2.1', content: 'say x' }), 409, 'turn_stopped');
  });

  test("by an admin fits anybody's message", async () => {
    await admin.stop(pods[0], 'u3', 'u3.1', { reason: 'closed' });
    expect(await ann.turn(pods[1], 'u3', 'u3.1')).toMatchObject({ initiator: null, stop: { by: 'ada' } });
    for (const user of [ann, bob]) {
      expectRefusal(await user.post(pods[1], 'u3', { turnId: 'u3.1', content: 'say x' }), 409, 'turn_stopped');
    }
    const refused = (await ann.events(pods[1], 'u3')).filter(({ type }) => type === 'message.refused');
    expect(refused.map(({ data }) => data)).toEqual([{ code: 'turn_stopped', initiator: 'ann' }]);
  });

  test('in one session does not take the message of another one, nor does it become its turn', async () => {
    await ann.stop(pods[0], 'u4', 'u4.1');
    await ann.say(pods[0], 'u5', 'say here', 'u5.1');
    await ann.ended(pods[0], 'u5', 'u5.1');
    expectRefusal(await ann.post(pods[1], 'u5', { turnId: 'u4.1', content: 'say x' }), 409, 'turn_mismatch');
    const before = await stage.place.rows();
    for (const session of ['u5', 'u-new'])
      expectRefusal(await ann.stop(pods[1], session, 'u4.1'), 409, 'turn_mismatch');
    expect(await stage.place.rows()).toEqual(before);
  });
});

describe('whose turn it is', () => {
  const NAMES = ['ended', 'running', 'queued', 'future'];

  test('another account gets what it would get for ids that nobody used; nothing of the first is changed or told', async () => {
    await inEveryState('o1');
    await ann.stop(pods[1], 'o1', 'o1.stopped');
    const before = await ann.events(pods[0], 'o1');
    for (const other of [new Caller('other', 'ann', 'user'), new Caller('admins', 'ann', 'user admin operator')]) {
      for (const name of [...NAMES, 'stopped']) {
        // The same calls for a turn that exists in another account and for one that exists nowhere.
        const [met, unused] = await Promise.all(
          [`o1.${name}`, `x1.${name}`].map(async (turnId) => {
            const session = turnId.slice(0, 2);
            const answers = [
              await other.retry(pods[0], session, turnId, 1),
              await other.call(pods[0], 'GET', `/v1/sessions/${session}/turns/${turnId}`),
              await other.stop(pods[1], session, turnId, { reason: 'mine' }),
              await other.stop(pods[2], session, turnId),
              await other.post(pods[2], session, { turnId, content: 'say mine' }),
              await other.call(pods[0], 'GET', `/v1/sessions/${session}/turns/${turnId}`),
            ];
            return answers.map(({ status, body }) => [
              status,
              JSON.stringify(body).replaceAll(session, 'S').replace(TIMES, ''),
            ]);
          }),
        );
        expect(met).toEqual(unused);
        expect(met!.map(([status]) => status)).toEqual([404, 404, 202, 202, 409, 200]);
      }
      const told = JSON.stringify(await other.events(pods[1], 'o1'));
      for (const word of ['say done', 'say never', 'sleep 60000', 'completed']) expect(told).not.toContain(word);
    }
    expect(await ann.events(pods[0], 'o1')).toEqual(before);
    expect((await ann.turn(pods[0], 'o1', 'o1.running')).state).toBe('running');
    expect((await ann.turn(pods[0], 'o1', 'o1.queued')).state).toBe('queued');
    expect((await ann.post(pods[0], 'o1', { turnId: 'o1.future', content: 'say mine' })).status).toBe(202);
    await stopAll('o1');
    expect(await ann.ended(pods[0], 'o1', 'o1.future')).toMatchObject({ state: 'completed', stop: null });
  });

  test('another user is refused with turn_mismatch and nothing is written; an admin may, and the ledger says who and why', async () => {
    await inEveryState('o2');
    const before = await ann.events(pods[0], 'o2');
    for (const name of ['ended', 'running', 'queued']) {
      const turnId = `o2.${name}`;
      for (const answer of [await bob.stop(pods[1], 'o2', turnId), await bob.retry(pods[2], 'o2', turnId, 1)]) {
        expectRefusal(answer, 409, 'turn_mismatch');
        expect(answer.body).not.toHaveProperty('state');
        expect(answer.body).not.toHaveProperty('generation');
      }
    }
    expectRefusal(await bob.stop(pods[1], 'o2', 'o2.ended', { generation: 2 }), 409, 'turn_mismatch');
    expect(await ann.events(pods[0], 'o2')).toEqual(before);

    for (const name of ['queued', 'running']) {
      const turnId = `o2.${name}`;
      expect((await admin.stop(pods[1], 'o2', turnId, { reason: `no ${name}` })).body).toMatchObject({
        already: false,
      });
      const turn = await ann.ended(pods[2], 'o2', turnId);
      expect(turn).toMatchObject({ initiator: 'ann', stop: { by: 'ada', reason: `no ${name}` } });
      const ends = of(await ann.events(pods[0], 'o2'), turnId).filter(({ type }) => type.startsWith('turn.stop'));
      for (const { data } of ends) expect(data).toMatchObject({ by: 'ada', reason: `no ${name}` });
    }
    expect((await admin.retry(pods[0], 'o2', 'o2.queued', 1)).status).toBe(202);
    const queued = of(await ann.events(pods[0], 'o2'), 'o2.queued').find(({ type }) => type === 'turn.queued');
    expect(queued!.data).toEqual({ retryOf: 1, by: 'ada' });
  });
});

describe('a watcher at another pod', () => {
  test.each([
    ['running', 'running'],
    ['queued', 'stop'],
    ['unborn', 'stop'],
  ])('sees the end of a turn that was stopped while %s at once, with its gate: %s', async (name, gate) => {
    const session = `w-${name}`;
    await inEveryState(session);
    const watcher = await Watcher.open(ann, pods[1], session);
    const sinceMs = performance.now();
    await ann.stop(pods[2], session, `${session}.${name}`);
    const end = await watcher.sees('turn.stopped', `${session}.${name}`, AT_ONCE_MS);
    expect(performance.now() - sinceMs).toBeLessThan(AT_ONCE_MS);
    expect(end).toMatchObject({ generation: 1, data: { by: 'ann', gate } });
    const types = of(watcher.events, `${session}.${name}`).map(({ type }) => type);
    expect(types).toEqual([...(name === 'running' ? ['turn.stop_requested'] : []), 'turn.stopped']);
    watcher.close();
    await stopAll(session);
  });
});

/** When something happened is the only difference. */
const TIMES = /"\d{4}-\d\d-\d\dT[\d:.]+Z"/g;
