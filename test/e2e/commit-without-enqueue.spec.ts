import { expect, test } from '@jest/globals';
import { Caller } from './harness/caller.js';
import { onServers } from './harness/stage.js';
import { until } from './harness/until.js';

const SWEEP_MS = 1000;
/** What a loaded machine of two cores may take for one acquire, claim and start. */
const SLACK_MS = 1000;
const caller = new Caller();

test(
  'a message whose pod died between commit and enqueue runs within two sweeps, without another call',
  onServers(async (stage) => {
    const [dying, other] = await stage.start(['dying', 'other'], { SWEEP_INTERVAL_MS: String(SWEEP_MS) });
    await dying.dieAt('intake.committed', { turnId: 't1' });
    await expect(caller.post(dying, 's1', { turnId: 't1', content: 'say done' })).rejects.toThrow();
    expect(await dying.exited).toEqual({ code: null, signal: 'SIGKILL' });
    expect(await stage.place.redis.keys(`${stage.place.keyPrefix}*pending*`)).toEqual([]);

    const started = await until('the turn starts', async () =>
      (await caller.events(other, 's1')).find((event) => event.type === 'turn.started'),
    );
    const [accepted] = await caller.events(other, 's1');
    expect(Date.parse(started.at) - Date.parse(accepted!.at)).toBeLessThan(2 * SWEEP_MS + SLACK_MS);
    expect(await caller.ended(other, 's1', 't1')).toMatchObject({ state: 'completed', generation: 1, attempts: 1 });

    const again = await caller.post(other, 's1', { turnId: 't1', content: 'say done' });
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect([again.status, again.body]).toEqual([
      202,
      { sessionId: 's1', turnId: 't1', generation: 1, state: 'queued', seq: accepted!.seq },
    ]);
    expect(stage.calls().map((call) => [call.turn, call.key, call.attempt])).toEqual([['t1', 'model:1', 1]]);
  }),
);

test(
  'a client that resends at once is answered as if the first call had been, and the turn runs once',
  onServers(async (stage) => {
    const [dying, other] = await stage.start(['dying', 'other'], { SWEEP_INTERVAL_MS: '60000' });
    await dying.dieAt('intake.committed', { turnId: 't1' });
    await expect(caller.post(dying, 's1', { turnId: 't1', content: 'say done' })).rejects.toThrow();

    const again = await caller.post(other, 's1', { turnId: 't1', content: 'say done' });
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect([again.status, again.body]).toEqual([
      202,
      { sessionId: 's1', turnId: 't1', generation: 1, state: 'queued', seq: 1 },
    ]);
    expect(await caller.ended(other, 's1', 't1')).toMatchObject({ state: 'completed', attempts: 1 });
    expect(stage.calls()).toHaveLength(1);
  }),
);

test(
  'messages stranded behind one another run in their order, before what was posted later',
  onServers(async (stage) => {
    const [first, second, other] = await stage.start(['first', 'second', 'other'], {
      SWEEP_INTERVAL_MS: String(SWEEP_MS),
    });
    for (const [pod, turnId] of [[first, 't1'] as const, [second, 't2'] as const]) {
      await pod.dieAt('intake.committed', { turnId });
      await expect(caller.post(pod, 's1', { turnId, content: `say ${turnId}` })).rejects.toThrow();
    }
    await caller.say(other, 's1', 'say t3', 't3');
    await caller.ended(other, 's1', 't3');

    const turns = await caller.turns(other, 's1');
    expect(turns.map((turn) => [turn.turnId, turn.state])).toEqual([
      ['t1', 'completed'],
      ['t2', 'completed'],
      ['t3', 'completed'],
    ]);
    expect(stage.calls().map((call) => call.turn)).toEqual(['t1', 't2', 't3']);
  }),
);
