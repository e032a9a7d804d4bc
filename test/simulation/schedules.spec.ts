import { Logger } from '@nestjs/common';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { randomInt } from 'node:crypto';
import { EXPECTED } from './expected.js';
import { Simulation } from './simulate.js';

/** More for a longer search, e.g. SCHEDULES=20000 npm run test:simulation */
const SCHEDULES = Number(process.env.SCHEDULES ?? 700);
const FIRST_SEED = Number(process.env.SEED ?? 1);
/** Others each time; the seed is told when something fails, and SEED plays it again. */
const FRESH = 60;
const FRESH_SEED = randomInt(1_000_000, 2 ** 31 - FRESH);

let simulation: Simulation;

beforeAll(() => {
  Logger.overrideLogger(false);
  simulation = new Simulation();
});
afterAll(() => simulation.close());

it(
  'I1 to I12 hold after every step of many schedules, and all that can happen has happened',
  async () => {
    const sinceMs = performance.now();
    const { steps, coverage } = await simulation.run(range(FIRST_SEED, SCHEDULES));
    const perMinute = Math.round((SCHEDULES / (performance.now() - sinceMs)) * 60_000);
    process.stdout.write(`${SCHEDULES} schedules, ${steps} steps, ${perMinute} schedules per minute\n`);
    // A few seeds by themselves need not meet everything.
    if (SCHEDULES >= 700) expect(coverage.missing(EXPECTED)).toEqual([]);
  },
  SCHEDULES * 1_000,
);

it('they hold in schedules that nobody has played before', async () => {
  await simulation.run(range(FRESH_SEED, FRESH));
});

it('a seed plays exactly the same again', async () => {
  const traces: string[] = [];
  for (let time = 0; time < 2; time++) {
    const alone = new Simulation();
    traces.push(JSON.stringify((await alone.play(4)).trace));
    await alone.close();
  }
  expect(traces[0]!.length).toBeGreaterThan(500);
  expect(traces[1] === traces[0]).toBe(true);
});

function* range(from: number, count: number): Generator<number> {
  for (let seed = from; seed < from + count; seed++) yield seed;
}
