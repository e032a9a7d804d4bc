import { expect, test } from '@jest/globals';
import { partitionOf, type SessionKey } from '#protocol';
import { Caller, type Message } from './harness/caller.js';
import { onServers } from './harness/stage.js';

const RESENDS = 10;
const REPLAYED = 'idempotency-replayed';
const caller = new Caller();
const message: Message = {
  turnId: 't1',
  content: [{ type: 'text', text: 'tool append {"file":"effects","line":"once"}' }],
  metadata: { source: 'web', tries: 1, urgent: true },
};

test(
  'the same POST ten times at once over three pods is one turn, and every answer is the first one',
  onServers(async (stage) => {
    const pods = await stage.start(['a', 'b', 'c']);
    const answers = await Promise.all(
      Array.from({ length: RESENDS }, (_, at) => caller.post(pods[at % pods.length]!, 's1', message)),
    );
    expect(answers.map((answer) => answer.status)).toEqual(Array<number>(RESENDS).fill(202));
    for (const answer of answers) expect(answer.body).toEqual(answers[0]!.body);
    const replayed = answers.filter((answer) => answer.headers.get(REPLAYED) === 'true');
    expect(replayed).toHaveLength(RESENDS - 1);

    expect(await caller.ended(pods[0], 's1', 't1')).toMatchObject({ state: 'completed', attempts: 1 });
    const late = await caller.post(pods[1], 's1', message);
    expect([late.status, late.headers.get(REPLAYED), late.body]).toEqual([202, 'true', answers[0]!.body]);

    const events = await caller.events(pods[2], 's1');
    expect(events.filter((event) => event.type === 'message.accepted')).toHaveLength(1);
    expect(events.filter((event) => event.type === 'turn.started')).toHaveLength(1);
    expect(stage.lines('effects')).toHaveLength(1);
    expect(await stage.place.rows()).toMatchObject({ session: 1, turn: 1 });
  }),
);

test(
  'ten first posts of one session at once, each its own message, are ten turns',
  onServers(async (stage) => {
    const pods = await stage.start(['a', 'b', 'c']);
    const answers = await Promise.all(
      Array.from({ length: RESENDS }, (_, at) => caller.say(pods[at % pods.length]!, 's1', `say ${at}`)),
    );
    expect(new Set(answers.map((answer) => answer.turnId)).size).toBe(RESENDS);
    expect(new Set(answers.map((answer) => answer.seq)).size).toBe(RESENDS);
    for (const { turnId } of answers) await caller.ended(pods[0], 's1', turnId);
  }),
);

test(
  'of ten different messages at once under one turnId, in two sessions, one is accepted and the others leave nothing',
  onServers(async (stage) => {
    const pods = await stage.start(['a', 'b', 'c']);
    const answers = await Promise.all(
      Array.from({ length: RESENDS }, (_, at) =>
        caller.post(pods[at % pods.length]!, `s${at % 2}`, { turnId: 't1', content: `say ${at}` }),
      ),
    );
    const accepted = answers.filter((answer) => answer.status === 202);
    const refused = answers.filter((answer) => answer.status !== 202);
    expect(accepted).toHaveLength(1);
    for (const answer of refused) {
      expect([answer.status, answer.body]).toEqual([409, expect.objectContaining({ code: 'turn_mismatch' })]);
    }
    const { sessionId } = accepted[0]!.body;
    expect(await caller.ended(pods[0], sessionId, 't1')).toMatchObject({ state: 'completed' });
    const events = await caller.events(pods[0], sessionId);
    expect(events.map((event) => event.seq)).toEqual(events.map((_, at) => at + 1));
    expect(await stage.place.rows()).toEqual({ session: 1, turn: 1, event: events.length });
  }),
);

test(
  'the same turnId with another content, mode, metadata, session or initiator is refused and nothing is written',
  onServers(async (stage) => {
    const [pod, other] = await stage.start(['a', 'b']);
    await caller.post(pod, 's1', message);
    await caller.ended(pod, 's1', 't1');
    const before = await stage.place.rows();

    const bob = new Caller('acme', 'bob');
    const refused = [
      await caller.post(pod, 's1', { ...message, content: 'say other' }),
      await caller.post(other, 's1', { ...message, mode: 'reject' }),
      await caller.post(other, 's1', { ...message, metadata: { source: 'web', tries: 2, urgent: true } }),
      await caller.post(pod, 's1', { ...message, metadata: undefined }),
      await caller.post(other, 's2', message),
      await bob.post(pod, 's1', message),
    ];
    for (const answer of refused) {
      expect([answer.status, answer.body]).toEqual([409, expect.objectContaining({ code: 'turn_mismatch' })]);
      expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/);
    }
    expect(await stage.place.rows()).toEqual(before);
    expect(stage.lines('effects')).toHaveLength(1);
  }),
);

test(
  'the same message with its fields and metadata in another order is the same message',
  onServers(async (stage) => {
    const [pod] = await stage.start(['a']);
    const first = await caller.post(pod, 's1', message);
    const reordered: Message = {
      metadata: { urgent: true, tries: 1, source: 'web' },
      content: [{ text: 'tool append {"file":"effects","line":"once"}', type: 'text' }],
      turnId: 't1',
    };
    const again = await caller.post(pod, 's1', reordered);
    expect([again.status, again.headers.get(REPLAYED), again.body]).toEqual([202, 'true', first.body]);
  }),
);

test(
  'the same ids in two accounts, in one partition of Redis, are two sessions that know nothing of each other',
  onServers(async (stage) => {
    // No sweep, so that a session is served by the pod that its message was posted to.
    const [pod, other] = await stage.start(['a', 'b'], { SWEEP_INTERVAL_MS: '60000' });
    const stranger = new Caller(neighbourOf({ account: caller.account, sessionId: 's1' }), caller.user);
    await caller.say(pod, 's1', 'say mine', 't1');
    expect(await caller.ended(pod, 's1', 't1')).toMatchObject({ state: 'completed', content: 'say mine' });
    await stranger.say(other, 's1', 'say theirs', 't1');
    expect(await stranger.ended(other, 's1', 't1')).toMatchObject({ state: 'completed', content: 'say theirs' });
    // Each is served where it was posted to: neither lease stands in the way of the other.
    expect((await caller.ownership(pod, 's1')).owner).toMatchObject({ podId: 'a', epoch: 1 });
    expect((await stranger.ownership(pod, 's1')).owner).toMatchObject({ podId: 'b', epoch: 1 });
  }),
);

/** Another account whose session of the same id lies in the same partition. */
function neighbourOf({ account, sessionId }: SessionKey): string {
  const partition = partitionOf({ account, sessionId });
  for (let number = 0; ; number++) {
    if (partitionOf({ account: `${account}-${number}`, sessionId }) === partition) return `${account}-${number}`;
  }
}
