import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { ERROR_STATUS } from '#protocol';
import { Caller } from './harness/caller.js';
import type { Place, RowCounts } from './harness/places.js';
import type { Pod } from './harness/pod.js';
import { type RawAnswer, sendBytes, sendRequest } from './harness/raw-http.js';
import { Stage } from './harness/stage.js';
import { HOSTILE_BYTES, HOSTILE_REQUESTS, MAX_BYTES } from './hostile-requests.js';

const SETTINGS = { MESSAGE_MAX_BYTES: String(MAX_BYTES), LOG_LEVEL: 'warn' };
/** What a refusal must not tell: where the code is, and what it asks its servers. */
const INNARDS = /node_modules|\bat .+:\d+:\d+|SELECT |INSERT |UPDATE |ER_[A-Z]|SQLITE_|Redis|ioredis/;
/** Ids that are told apart byte by byte, and that objects have as members of their own. */
const ODD_IDS = [
  'A',
  'a',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '...',
  '~',
  '-',
  '_',
  '0',
  'x'.repeat(128),
];

const kinds: [string, () => Promise<Stage<Place>>][] = [
  ['on servers', () => Stage.onServers()],
  ['embedded', () => Promise.resolve(Stage.onFile())],
];

describe.each(kinds)('a pod %s', (kind, open) => {
  const caller = new Caller();
  let stage: Stage<Place>;
  let pod: Pod;
  let rows: RowCounts;

  beforeAll(async () => {
    stage = await open();
    await stage.watch(async () => {
      [pod] = await stage.start(['pod'], SETTINGS);
      for (const [session, turn] of [['known', 't1'] as const, ['second', 't2'] as const]) {
        await caller.say(pod, session, 'say hello', turn);
        await caller.ended(pod, session, turn);
      }
      rows = await countRows();
    });
  });

  afterAll(async () => {
    await stage.end();
  });

  /** A SQLite file belongs to its pod: it is counted while the pod is away. */
  async function countRows(): Promise<RowCounts> {
    if (kind === 'on servers') return stage.place.rows();
    await pod.terminate();
    const counted = await stage.place.rows();
    [pod] = await stage.start(['pod'], SETTINGS);
    return counted;
  }

  describe('refuses', () => {
    let seen: RowCounts | null = null;

    afterEach(async () => {
      if (kind !== 'on servers') return;
      const before = seen ?? rows;
      seen = await countRows();
      expect(seen).toEqual(before);
    });

    test.each(HOSTILE_REQUESTS.map((each) => [each.name, each] as const))('%s', async (_name, { request, code }) => {
      const answer = await sendRequest(pod, request);
      expect([answer.status, codeOf(answer)]).toEqual([ERROR_STATUS[code], code]);
      expect(answer.text).not.toMatch(INNARDS);
    });

    test.each(Object.entries(HOSTILE_BYTES))('bytes: %s', async (_name, bytes) => {
      const statuses = [...(await sendBytes(pod, bytes)).matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map((match) =>
        Number(match[1]),
      );
      for (const status of statuses) {
        expect(status).toBeGreaterThanOrEqual(400);
        expect(status).toBeLessThan(500);
      }
      expect((await fetch(`${pod.url}/health/live`)).status).toBe(200);
    });
  });

  test('wrote nothing for all of these, is the same process still, and logged no error', async () => {
    expect(pod.alive).toBe(true);
    expect(pod.errors).toEqual([]);
    expect(await countRows()).toEqual(rows);
  });

  test('tells each field that is wrong', async () => {
    const { body } = await caller.call<{ errors: { path: string }[] }>(pod, 'POST', '/v1/sessions/known/messages', {
      turnId: 'a:b',
      content: [{ type: 'text', text: 7 }],
      mode: 'now',
      extra: 1,
    });
    const paths = body.errors.map((error) => error.path);
    expect(paths.sort()).toEqual(['content[0].text', 'extra', 'mode', 'turnId']);
  });

  test('takes odd ids for sessions, turns and accounts, and keeps them apart', async () => {
    for (const id of ODD_IDS) {
      expect((await caller.post(pod, `${id}`, { turnId: id, content: `say session ${id}` })).status).toBe(202);
      const account = new Caller(id, id);
      expect((await account.post(pod, 'mine', { turnId: 'mine', content: `say account ${id}` })).status).toBe(202);
    }
    for (const id of ODD_IDS) {
      expect(await caller.ended(pod, id, id)).toMatchObject({ sessionId: id, content: `say session ${id}` });
      expect(await caller.turns(pod, id)).toHaveLength(1);
      const account = new Caller(id, id);
      expect(await account.ended(pod, 'mine', 'mine')).toMatchObject({ content: `say account ${id}`, initiator: id });
      expect(await account.turns(pod, 'mine')).toHaveLength(1);
      const { sessions } = await account.get<{ sessions: unknown[] }>(pod, '/v1/sessions');
      expect(sessions).toHaveLength(1);
    }
  });

  test('gives back any text as it came: NUL, controls, every plane, either direction', async () => {
    const content =
      'say \u0000\u0001\u007f\ufffd\ufffe\uffff \u{1f600}\u{10ffff} \u202ertl \\ud800 %s ${x} \' " ` <b> -- ; DROP';
    const metadata = {
      'key with \u0000 and \u{1f600}': 'value \\ \u2028',
      zero: 0,
      minus: -1.5e-7,
      no: false,
      empty: '',
    };
    await caller.post(pod, 'texts', { turnId: 'text', content, metadata });
    const turn = await caller.ended(pod, 'texts', 'text');
    expect(turn).toMatchObject({ state: 'completed', content, metadata });
    const [accepted] = await caller.events(pod, 'texts');
    expect(accepted!.data).toMatchObject({ content, metadata });
  });

  test('takes a body of exactly the limit', async () => {
    const frame = Buffer.byteLength(JSON.stringify({ content: 'say ' }));
    const { status } = await caller.post(pod, 'full', { content: `say ${'x'.repeat(MAX_BYTES - frame)}` });
    expect(status).toBe(202);
  });
});

function codeOf(answer: RawAnswer): string {
  expect(answer.contentType).toMatch(/^application\/problem\+json\b/);
  const problem = JSON.parse(answer.text) as Record<string, unknown>;
  expect(problem).toMatchObject({
    type: expect.any(String),
    title: expect.any(String),
    status: answer.status,
    detail: expect.any(String),
  });
  return problem.code as string;
}
