import type { Row } from './row.js';

/** A drill that has been played to its end. */
export interface Played {
  name: string;
  tookS: number;
  rows: Row[];
}

export function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

export function sayRows({ name, tookS, rows }: Played): void {
  const wide = Math.max(...rows.map(({ what }) => what.length));
  say(`\n${name}, ${tookS} s`);
  for (const { what, value, unit = '', aim, verdict, cases } of rows) {
    const figure = `${value} ${unit}`.trim().padStart(10);
    say(`  ${what.padEnd(wide)}  ${figure}${aim ? `  (${aim})` : ''}${verdict ? `  ${verdict.toUpperCase()}` : ''}`);
    for (const line of cases ?? []) say(`      ${line}`);
  }
}

/** A line for each drill: what was bad, and what missed its aim. */
export function saySummary(played: readonly Played[]): void {
  say('');
  for (const { name, rows } of played) {
    const of = (verdict: Row['verdict']): Row[] => rows.filter((row) => row.verdict === verdict);
    const word = of('bad').length > 0 ? 'BAD ' : of('warn').length > 0 ? 'warn' : 'good';
    const why = [...of('bad'), ...of('warn')].map(({ what, value }) => `${what}: ${value}`).join('; ');
    say(`${word}  ${name.padEnd(16)}${why}`);
  }
}
