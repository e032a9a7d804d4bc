import { expect, test } from '@jest/globals';
import { DRILLS } from './drills.js';
import { runDrill } from './harness/run-drill.js';

/** The short forms of the drills: `npm run drill` plays the long ones. */
test.each(DRILLS.map((drill) => ({ ...drill, drill })))(
  '$name: $tells',
  async ({ drill }) => {
    const told: string[] = [];
    const rows = await runDrill(drill, drill.short, (line) => told.push(line));
    const bad = rows.filter(({ verdict }) => verdict === 'bad');
    if (bad.length > 0) process.stderr.write(`${told.join('\n')}\n`);
    expect(bad).toEqual([]);
  },
  240_000,
);
