import type { Database } from '#platform';
import { Coverage } from './coverage.js';
import { openLedger } from './ledger.js';
import { planOf } from './plan.js';
import { type Report, Schedule } from './schedule.js';
import { LedgerClock } from './world.js';

/** What a run of schedules has come to. */
export interface Summary {
  steps: number;
  coverage: Coverage;
}

/** How many of the last things that happened a failure tells. */
const TOLD = 80;

/** Plays schedules one after the other on one ledger. */
export class Simulation {
  private readonly clock = new LedgerClock();
  private database: Database | null = null;

  /** Plays these seeds. @throws Error with the seed and what happened last, at the first promise that does not hold */
  async run(seeds: Iterable<number>): Promise<Summary> {
    const summary: Summary = { steps: 0, coverage: new Coverage() };
    for (const seed of seeds) {
      const report = await this.play(seed);
      if (report.failure) throw told(seed, report);
      summary.steps += report.steps;
      summary.coverage.add(report.coverage);
    }
    return summary;
  }

  async play(seed: number): Promise<Report> {
    this.database ??= await openLedger(this.clock);
    const schedule = new Schedule(planOf(seed), this.database);
    this.clock.world = schedule.world;
    return schedule.play();
  }

  async close(): Promise<void> {
    await this.database?.close();
    this.database = null;
  }
}

function told(seed: number, { failure, plan, trace }: Report): Error {
  const last = trace.slice(-TOLD).map(({ atMs, whose, label }) => `${atMs.toFixed(1)} ${whose} ${label}`);
  const faults = plan.faults.map(({ kind, atMs, pod }) => `${kind} of ${pod} at ${Math.round(atMs)}`);
  const head = `seed ${seed} (${plan.theme}, ${plan.pace.name}): ${failure!.message}`;
  return new Error([head, `faults: ${faults.join(', ')}`, ...last].join('\n'), { cause: failure });
}
