import { DATABASE_DEFAULTS, type Database, migrate, openDatabase, StepPoints } from '#platform';
import { ALL_SCHEMAS } from '#test-kit';
import { SeededRandom } from './seeded-random.js';
import type { LedgerClock } from './world.js';

/** An empty ledger in memory, whose time is that of the world under way. */
export async function openLedger(clock: LedgerClock): Promise<Database> {
  const deps = { clock, randomness: new SeededRandom(0), steps: new StepPoints() };
  const options = { ...DATABASE_DEFAULTS, url: 'sqlite::memory:' };
  const open = await openDatabase(options, ALL_SCHEMAS, deps);
  await migrate(open, options);
  return open.database;
}
