import type { SessionReading } from './session-reading.js';
import { demand } from './violation.js';

/** What is waited for, since when, and how long at most. */
interface Wait {
  what: string;
  sinceMs: number;
}

/** How long each may take where nothing ails, ms. */
export interface Limits {
  /** A message whose session does nothing. */
  startMs: number;
  /** A turn that is to stop. */
  stopMs: number;
}

/** I3 and I6 in time: on a healthy system nobody waits for nothing. What ails stands still the clock of all waits. */
export class Waits {
  private readonly starts = new Map<string, Wait>();
  private readonly stops = new Map<string, Wait>();
  private disturbedUntilMs = 0;

  constructor(private readonly limits: Limits) {}

  /** Something ails until then, or has to be made up for. */
  disturb(untilMs: number): void {
    this.disturbedUntilMs = Math.max(this.disturbedUntilMs, untilMs);
  }

  /** What the session waits for now. */
  note(name: string, session: SessionReading, nowMs: number): void {
    const first = session.running ? undefined : session.live()[0];
    set(this.starts, name, first && `${first.ref.turnId}/${first.ref.generation}`, nowMs);
    set(this.stops, name, session.running?.toStop ? session.running.turn : undefined, nowMs);
  }

  /** @throws Violation */
  check(nowMs: number): void {
    const { startMs, stopMs } = this.limits;
    for (const [session, wait] of this.starts) {
      const ms = nowMs - Math.max(wait.sinceMs, this.disturbedUntilMs);
      demand(ms <= startMs, 'I3', `${wait.what} of ${session} has waited for ${Math.round(ms)} ms, and nothing runs`);
    }
    for (const [session, wait] of this.stops) {
      const ms = nowMs - Math.max(wait.sinceMs, this.disturbedUntilMs);
      demand(ms <= stopMs, 'I6', `${wait.what} of ${session} was to stop ${Math.round(ms)} ms ago`);
    }
  }
}

function set(waits: Map<string, Wait>, name: string, what: string | undefined, nowMs: number): void {
  if (what === undefined) waits.delete(name);
  else if (waits.get(name)?.what !== what) waits.set(name, { what, sinceMs: nowMs });
}
