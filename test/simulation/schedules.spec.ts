import { Logger } from '@nestjs/common';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { DATABASE_DEFAULTS, type Database, migrate, openDatabase, StepPoints } from '#platform';
import { EVENT_LEDGER_SCHEMA } from '#event-ledger';
import { TURN_LIFECYCLE_SCHEMA } from '#turn-lifecycle';
import { Schedule } from './schedule.js';
import { SeededRandom } from './seeded-random.js';
import { LedgerClock } from './world.js';

/** More for a longer search, e.g. SCHEDULES=20000 npm run test:simulation */
const SCHEDULES = Number(process.env.SCHEDULES ?? 500);
const FIRST_SEED = Number(process.env.SEED ?? 1);

const clock = new LedgerClock();
let database: Database;

beforeAll(async () => {
  Logger.overrideLogger(false);
  const deps = { clock, randomness: new SeededRandom(0), steps: new StepPoints() };
  const options = { ...DATABASE_DEFAULTS, url: 'sqlite::memory:' };
  const open = await openDatabase(options, [EVENT_LEDGER_SCHEMA, TURN_LIFECYCLE_SCHEMA], deps);
  await migrate(open, options);
  database = open.database;
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
