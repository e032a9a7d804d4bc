import { expect, test } from '@jest/globals';
import type { Event } from '#protocol';
import { Caller } from './harness/caller.js';
import { onServers } from './harness/stage.js';
import { until } from './harness/until.js';

/** No sweep: what is handed over is taken because that was said. */
const SETTINGS = { SWEEP_INTERVAL_MS: '60000' };
/** How soon a stop ends a turn (I6). */
const AT_ONCE_MS = 1000;
const caller = new Caller();

const failures = (events: readonly Event[]) =>
  events.flatMap((event) => (event.type === 'model.failed' ? [event] : []));

test(
  'a turn whose model is overloaded tries again by itself, tells of it, and completes with each reply once',
  onServers(async (stage) => {
    const [pod] = await stage.start(['pod'], SETTINGS);
    await caller.say(pod, 's1', 'say one\nflaky 3 at last\nsay two', 't1');
    expect(await caller.ended(pod, 's1', 't1')).toMatchObject({ state: 'completed', attempts: 1 });
    const events = await caller.events(pod, 's1');
    expect(failures(events).map(({ data }) => [data.step, data.try, data.error.retryable])).toEqual([
      ['model:2', 1, true],
      ['model:2', 2, true],
      ['model:2', 3, true],
    ]);
    const replies = events.flatMap((event) => (event.type === 'model.message' ? [event.data.text] : []));
    expect(replies).toEqual(['one', 'at last', 'two']);
    expect(stage.calls().map(({ key }) => key)).toEqual([
      'model:1',
      ...['model:2', 'model:2', 'model:2', 'model:2'],
      'model:3',
    ]);
  }),
);

test(
  'a turn that waits to try again leaves a pod that ends at once, goes on elsewhere, and stops there at once',
  onServers(async (stage) => {
    const [leaving, other] = await stage.start(['leaving', 'other'], SETTINGS);
    await caller.say(leaving, 's1', 'say one\nflaky 9 at last', 't1');
    /** Seconds are left until the eighth try. */
    const waits = async (): Promise<boolean> => failures(await caller.events(other, 's1')).length === 7;
    await until('it waits for long', waits, 30_000);
    await leaving.terminate();
    await until('it goes on', () => stage.calls().some(({ pod }) => pod === 'other'));
    const stopped = performance.now();
    expect((await caller.stop(other, 's1', 't1')).status).toBe(202);
    expect(await caller.ended(other, 's1', 't1')).toMatchObject({ state: 'stopped', attempts: 2 });
    expect(performance.now() - stopped).toBeLessThan(AT_ONCE_MS);
    const steps = stage.calls().map(({ pod, key }) => `${pod} ${key}`);
    const tries = Array<string>(7).fill('leaving model:2');
    expect(steps.slice(0, 9)).toEqual(['leaving model:1', ...tries, 'other model:2']);
    expect(steps.slice(8).every((step) => step === 'other model:2')).toBe(true);
  }),
);
