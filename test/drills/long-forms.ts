import { mkdirSync, writeFileSync } from 'node:fs';
import { afterAll, expect, test } from '@jest/globals';
import { DRILLS } from './drills.js';
import { runDrill } from './harness/run-drill.js';
import { type Played, say, sayRows, saySummary } from './harness/told.js';

/**
 * What `npm run drill` runs: the long forms (DRILL_FORM=short: the short ones) of all drills or of those in DRILLS, with
 * lines of progress and a verdict on each. A promise that was broken fails the run; a figure that misses its aim is told.
 */
const RESULTS = 'bench-results/drills.json';
const LIMIT_MS = 15 * 60_000;
const form = process.env['DRILL_FORM'] === 'short' ? 'short' : 'long';
const names = process.env['DRILLS']?.split(',') ?? [];
const chosen = DRILLS.filter(({ name }) => names.length === 0 || names.includes(name));
const played: Played[] = [];

test('there are drills of these names', () => {
  expect(chosen.map(({ name }) => name)).toEqual(names.length === 0 ? DRILLS.map(({ name }) => name) : names);
});

test.each(chosen.map((drill) => ({ name: drill.name, drill })))(
  '$name',
  async ({ name, drill }) => {
    say(`\n── ${name}: ${drill.tells}`);
    const sinceMs = performance.now();
    const rows = await runDrill(drill, drill[form], say);
    const tookS = Math.round((performance.now() - sinceMs) / 1000);
    played.push({ name, tookS, rows });
    sayRows(played.at(-1)!);
    expect(rows.filter(({ verdict }) => verdict === 'bad')).toEqual([]);
  },
  LIMIT_MS,
);

afterAll(() => {
  saySummary(played);
  mkdirSync('bench-results', { recursive: true });
  writeFileSync(RESULTS, `${JSON.stringify({ form, played }, null, 2)}\n`);
});
