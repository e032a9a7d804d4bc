import { expect, test } from '@jest/globals';
import { Settings } from '#platform';
import { Caller } from './harness/caller.js';
import type { Pod } from './harness/pod.js';
import { onServers, type Stage } from './harness/stage.js';
import type { ServersPlace } from './harness/places.js';

const POSTS = 10_000;
const CLIENTS = 50;
/** Conversations that go on beside the flood, and how many messages each of them must get through meanwhile. */
const OTHERS = 6;
const WORDS = 5;
const FULL = new Settings().queueMaxPending;

const caller = new Caller();

test(
  `${POSTS} messages to one busy session at three pods: ${FULL} are accepted and run in order, the others leave no trace`,
  onServers(async (stage) => {
    const pods = await stage.start(['a', 'b', 'c'], { LOG_LEVEL: 'warn' });
    const holds = await Promise.all(pods.map((pod) => pod.holdAt('finish.before', { turnId: 'busy' })));
    await caller.say(pods[0], 'full', 'say busy', 'busy');
    await Promise.race(holds.map((hold) => hold.reached()));

    const sinceMs = performance.now();
    const [accepted, longestMs] = await Promise.all([flood(pods), converse(pods)]);
    const floodMs = performance.now() - sinceMs;
    expect(accepted).toHaveLength(FULL);
    expect(await rowsOf(stage, 'full')).toEqual({ turns: FULL + 1, messages: FULL + 1, queued: FULL });
    const waiting = await caller.get<{ turns: unknown[] }>(pods[1], '/v1/sessions/full/turns?state=queued&limit=1000');
    expect(waiting.turns).toHaveLength(FULL);

    for (const hold of holds) await hold.release();
    const inOrder = accepted.toSorted((one, other) => one.seq - other.seq).map(({ turnId }) => turnId);
    await caller.ended(pods[2], 'full', inOrder.at(-1)!);
    const events = await caller.events(pods[1], 'full');
    for (const type of ['message.accepted', 'turn.started', 'turn.completed']) {
      const turns = events.flatMap((event) => (event.type === type ? [event.turnId] : []));
      expect(turns).toEqual(['busy', ...inOrder]);
    }
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, at) => at + 1));

    // There is room again.
    const refused = Array.from({ length: POSTS }, (_, at) => `t${at}`).find((turnId) => !inOrder.includes(turnId))!;
    await caller.say(pods[0], 'full', 'say again', refused);
    expect(await caller.ended(pods[1], 'full', refused)).toMatchObject({ state: 'completed' });
    const rate = Math.round(POSTS / (floodMs / 1000));
    process.stdout.write(
      `${POSTS} posts in ${Math.round(floodMs)} ms (${rate}/s): ${FULL} accepted; beside them ${OTHERS * WORDS} messages of ` +
        `others, the slowest done in ${Math.round(longestMs)} ms\n`,
    );
  }),
  120_000,
);

/** What was accepted. Everything else must be refused as it should be. */
async function flood(pods: readonly Pod[]): Promise<{ turnId: string; seq: number }[]> {
  const accepted: { turnId: string; seq: number }[] = [];
  const refusals = new Set<string>();
  let next = 0;
  const client = async (): Promise<void> => {
    for (let at = next++; at < POSTS; at = next++) {
      const turnId = `t${at}`;
      const { status, body, headers } = await caller.post(pods[at % pods.length]!, 'full', {
        ...{ turnId, content: `say ${turnId}` },
      });
      if (status === 202) accepted.push({ turnId, seq: body.seq });
      else refusals.add(`${status} ${(body as unknown as { code: string }).code} ${headers.get('retry-after')}`);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  expect([...refusals]).toEqual([expect.stringMatching(/^429 queue_full [1-9]\d*$/)]);
  return accepted;
}

/** Talks to other sessions at all pods; the longest that a message took from its POST to its end. */
async function converse(pods: readonly Pod[]): Promise<number> {
  let longestMs = 0;
  const talk = async (at: number): Promise<void> => {
    for (let nth = 0; nth < WORDS; nth++) {
      const sinceMs = performance.now();
      const [pod, other] = [pods[(at + nth) % pods.length]!, pods[(at + nth + 1) % pods.length]!];
      const { turnId } = await caller.say(pod, `other${at}`, `say ${nth}`);
      expect(await caller.ended(other, `other${at}`, turnId)).toMatchObject({ state: 'completed', attempts: 1 });
      longestMs = Math.max(longestMs, performance.now() - sinceMs);
    }
  };
  await Promise.all(Array.from({ length: OTHERS }, (_, at) => talk(at)));
  return longestMs;
}

async function rowsOf(stage: Stage<ServersPlace>, sessionId: string): Promise<unknown> {
  const count = (table: string, where: string): string =>
    `(SELECT COUNT(*) FROM ${table} WHERE session_id = '${sessionId}'${where})`;
  const [rows] = await stage.place.query(
    `SELECT ${count('turn', '')} AS turns, ${count('event', " AND type = 'message.accepted'")} AS messages,
       ${count('turn', " AND state = 'queued'")} AS queued`,
  );
  return rows;
}
