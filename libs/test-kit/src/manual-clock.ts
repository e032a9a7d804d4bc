import { Clock, type Timer } from '#platform';

interface Due {
  atMs: number;
  run(): void;
}

/** A clock that stands still until a test advances it. */
export class ManualClock extends Clock {
  private elapsedMs = 0;
  private timers: Due[] = [];

  /** @param startsAtMs the wall clock at the beginning, ms since 1970 */
  constructor(private readonly startsAtMs = Date.UTC(2030, 0, 1)) {
    super();
  }

  now(): number {
    return this.startsAtMs + this.elapsedMs;
  }

  monotonicMs(): number {
    return this.elapsedMs;
  }

  after(ms: number, run: () => void): Timer {
    const timer: Due = { atMs: this.elapsedMs + ms, run };
    this.timers.push(timer);
    return { cancel: () => this.remove(timer) };
  }

  /** How many timers are set. */
  get pending(): number {
    return this.timers.length;
  }

  /** Goes on by `ms`: runs the timers that fall due, in order, and lets all that follows from each settle. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.elapsedMs + ms;
    await settled();
    for (let next = this.next(untilMs); next; next = this.next(untilMs)) {
      this.elapsedMs = Math.max(this.elapsedMs, next.atMs);
      this.remove(next);
      next.run();
      await settled();
    }
    this.elapsedMs = untilMs;
    await settled();
  }

  /** Goes on by `ms` as a process that was stopped meanwhile sees it: no timer has run yet. */
  stall(ms: number): void {
    this.elapsedMs += ms;
  }

  private next(untilMs: number): Due | undefined {
    let first: Due | undefined;
    for (const timer of this.timers) if (timer.atMs <= untilMs && (!first || timer.atMs < first.atMs)) first = timer;
    return first;
  }

  private remove(timer: Due): void {
    this.timers = this.timers.filter((other) => other !== timer);
  }
}

/** Resolves when every promise that can go on without time or I/O has done so. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
