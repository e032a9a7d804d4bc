import { expect, it } from '@jest/globals';
import { ManualClock } from './manual-clock.js';

it('a manual clock runs due timers in order, each with all that follows from it', async () => {
  const clock = new ManualClock(1_000);
  const seen: string[] = [];
  clock.after(20, () => seen.push(`second at ${clock.now()}`));
  clock.after(10, () => {
    seen.push(`first at ${clock.now()}`);
    clock.after(5, () => seen.push(`its follower at ${clock.now()}`));
  });
  clock.after(10, () => seen.push('set later, for the same time'));
  const slept = clock.sleep(12).then(() => seen.push('slept'));
  clock.after(30, () => seen.push('not yet'));
  clock.after(1, () => seen.push('never')).cancel();
  await clock.advance(25);
  await slept;
  expect(seen).toEqual([
    'first at 1010',
    'set later, for the same time',
    'slept',
    'its follower at 1015',
    'second at 1020',
  ]);
  expect([clock.now(), clock.monotonicMs(), clock.pending]).toEqual([1_025, 25, 1]);
});

it('a manual clock repeats what is set to repeat', async () => {
  const clock = new ManualClock();
  let ticks = 0;
  const timer = clock.every(10, () => ticks++);
  await clock.advance(35);
  timer.cancel();
  await clock.advance(100);
  expect([ticks, clock.pending]).toEqual([3, 0]);
});
