import { Logger } from '@nestjs/common';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { Database } from '#platform';
import { openLedger } from './ledger.js';
import { Schedule } from './schedule.js';
import { LedgerClock } from './world.js';

/** More for a longer search, e.g. SCHEDULES=20000 npm run test:simulation */
const SCHEDULES = Number(process.env.SCHEDULES ?? 500);
const FIRST_SEED = Number(process.env.SEED ?? 1);

const clock = new LedgerClock();
let database: Database;

beforeAll(async () => {
  Logger.overrideLogger(false);
  database = await openLedger(clock);
});

afterAll(() => database.close());

it(
  `I1 to I4 hold after every step of ${SCHEDULES} schedules of three pods with crashes and pauses`,
  async () => {
    let steps = 0;
    const befell = { crashes: 0, freezes: 0 };
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SCHEDULES; seed++) {
      const schedule = new Schedule(seed, database, { crashes: 2, freezes: 2 });
      clock.world = schedule.world;
      const report = await schedule.run();
      steps += report.steps;
      befell.crashes += report.crashes;
      befell.freezes += report.freezes;
    }
    process.stdout.write(`${SCHEDULES} schedules, ${steps} steps, ${JSON.stringify(befell)}\n`);
    expect(befell.crashes).toBeGreaterThan(SCHEDULES / 2);
    expect(befell.freezes).toBeGreaterThan(SCHEDULES / 2);
  },
  SCHEDULES * 1_000,
);
