/** One line of a verdict. `warn`: a figure misses its aim; `bad`: a promise is broken. */
export interface Row {
  what: string;
  value: number | string;
  unit?: 's' | 'ms';
  aim?: string;
  verdict?: 'bad' | 'warn';
  /** What stands behind a bad row: some of the cases. */
  cases?: readonly string[];
}

const CASES_MAX = 10;

/** Of these there may be none. */
export function none(what: string, cases: readonly string[]): Row {
  const bad = { verdict: 'bad', cases: cases.slice(0, CASES_MAX) } as const;
  return { what, value: cases.length, aim: '0', ...(cases.length > 0 && bad) };
}

/** Without some of these the drill has shown nothing. */
export function some(what: string, value: number): Row {
  return { what, value, aim: 'some', ...(value === 0 && { verdict: 'bad' }) };
}

/** A time, which is to stay below `aimMs` and must stay below `limitMs`. */
export function within(what: string, ms: number, { aimMs, limitMs }: { aimMs?: number; limitMs?: number }): Row {
  const row: Row = { what, value: Math.round(ms) / 1000, unit: 's' };
  const told = aimMs ?? limitMs;
  if (told !== undefined) row.aim = `≤ ${told / 1000}`;
  if (limitMs !== undefined && !(ms <= limitMs)) return { ...row, verdict: 'bad' };
  return aimMs !== undefined && !(ms <= aimMs) ? { ...row, verdict: 'warn' } : row;
}

/** The middle, nearly the longest, and the longest; NaN of nothing. */
export function spread(values: readonly number[]): { p50: number; p99: number; max: number } {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? NaN;
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}
