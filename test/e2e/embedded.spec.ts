import { expect, test } from '@jest/globals';
import { Caller } from './harness/caller.js';
import { Pod } from './harness/pod.js';
import { onFile } from './harness/stage.js';
import { until } from './harness/until.js';

const caller = new Caller();

/** Two recorded tool calls with a step between them that is long enough to be killed in. */
const WORK = [
  'tool append {"file":"effects","line":"before"}',
  'sleep 1000',
  'tool append {"file":"effects","line":"after"}',
  'say done',
].join('\n');

test(
  'a turn that was killed between two tool calls goes on after the last recorded one, and what waited follows in order',
  onFile(async (stage) => {
    const [first] = await stage.start(['pod']);
    await caller.say(first, 's1', WORK, 't1');
    await caller.say(first, 's1', 'say second', 't2');
    await caller.say(first, 's1', 'history', 't3');
    await caller.say(first, 's2', 'sleep 1000\nsay elsewhere', 'u1');
    await until('the step between', () => stage.calls().some((call) => call.turn === 't1' && call.key === 'model:2'));
    await until('the other session', () => stage.calls().some((call) => call.turn === 'u1'));
    await first.kill();

    const [again] = await stage.start(['pod']);
    await caller.say(again, 's1', 'say later', 't4');
    for (const turnId of ['t1', 't2', 't3', 't4']) {
      expect(await caller.ended(again, 's1', turnId)).toMatchObject({ state: 'completed', generation: 1 });
    }
    expect(await caller.ended(again, 's2', 'u1')).toMatchObject({ state: 'completed' });

    expect(stage.lines('effects')).toHaveLength(2);
    const calls = stage.calls().filter((call) => call.turn === 't1' && call.endNs !== null);
    expect(calls.map((call) => [call.key, call.attempt])).toEqual([
      ['model:1', 1],
      [expect.stringMatching(/^tool:/), 1],
      ['model:2', 2],
      ['model:3', 2],
      [expect.stringMatching(/^tool:/), 2],
      ['model:4', 2],
    ]);
    expect([
      ...new Set(
        stage
          .calls()
          .filter((call) => call.session === 's1')
          .map((call) => call.turn),
      ),
    ]).toEqual(['t1', 't2', 't3', 't4']);

    const events = await caller.events(again, 's1');
    expect(events.map((event) => event.seq)).toEqual(events.map((_, at) => at + 1));
    const life = events.filter((event) => event.turnId === 't1' && event.type.startsWith('turn.'));
    expect(life.map((event) => event.type)).toEqual(['turn.started', 'turn.resumed', 'turn.completed']);
    expect(life[1]!.data).toMatchObject({ attempt: 2, podId: 'pod', epoch: 2 });
  }),
);

test(
  'a message that was accepted but never queued before the kill runs at the next start',
  onFile(async (stage) => {
    const [first] = await stage.start(['pod']);
    await first.dieAt('intake.committed', { turnId: 't1' });
    await expect(caller.post(first, 's1', { turnId: 't1', content: 'say done' })).rejects.toThrow();
    await first.exited;

    const [again] = await stage.start(['pod']);
    expect(await caller.ended(again, 's1', 't1')).toMatchObject({ state: 'completed', attempts: 1 });
    const resent = await caller.post(again, 's1', { turnId: 't1', content: 'say done' });
    expect([resent.status, resent.headers.get('idempotency-replayed')]).toEqual([202, 'true']);
  }),
);

test(
  'a clean stop and start in the middle of a turn loses nothing and repeats nothing',
  onFile(async (stage) => {
    const [first] = await stage.start(['pod']);
    await caller.say(first, 's1', WORK, 't1');
    await caller.say(first, 's1', 'say second', 't2');
    await until('the step between', () => stage.calls().some((call) => call.key === 'model:2'));
    expect(await first.terminate()).toMatchObject({ code: 0 });

    const [again] = await stage.start(['pod']);
    for (const turnId of ['t1', 't2']) {
      expect(await caller.ended(again, 's1', turnId)).toMatchObject({ state: 'completed', generation: 1, stop: null });
    }
    expect(stage.lines('effects')).toHaveLength(2);
  }),
);

test(
  'a second pod on the same ledger ends with exit code 1 and one line that says what to do',
  onFile(async (stage) => {
    const [first] = await stage.start(['pod']);
    const second = Pod.launchServer('second', {
      ...stage.place.settings,
      PORT: '0',
      LOG_LEVEL: 'warn',
    });
    stage.pods.push(second);
    await until('the second pod ends', () => !second.alive);
    expect(await second.exited).toEqual({ code: 1, signal: null });
    const lines = second.log.split('\n').filter(Boolean);
    expect(lines).toEqual([expect.stringMatching(/ledger\.sqlite is in use by another process: stop that one/)]);

    await caller.say(first, 's1', 'say unharmed', 't1');
    expect(await caller.ended(first, 's1', 't1')).toMatchObject({ state: 'completed' });
  }),
);
