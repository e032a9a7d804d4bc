import { type ELDHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import { Inject, Injectable, Logger } from '@nestjs/common';
import { Clock, type Timer } from './clock.js';

/** How exactly it is measured. */
const RESOLUTION_MS = 20;
/** How often it is looked at. */
const LOOK_MS = 1_000;
/** A loop that stands still for longer is told in the log: renewals and answers wait for as long. */
const WARN_ABOVE_MS = 500;
const NS_PER_MS = 1_000_000;

/**
 * How long the event loop of this process stands still: for a step that blocks it, a stopped process, a machine that is
 * too slow. Nothing depends on it (a lease's deadline is a moment, not a timer); it tells the operator why leases were
 * lost. Costs one timer.
 */
@Injectable()
export class LoopLag {
  private readonly logger = new Logger(LoopLag.name);
  private histogram: ELDHistogram | null = null;
  private timer: Timer | null = null;
  private telling: Timer | null = null;

  constructor(@Inject(Clock) private readonly clock: Clock) {}

  start(): void {
    this.histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
    this.histogram.enable();
    this.timer = this.clock.every(LOOK_MS, () => this.look());
  }

  stop(): void {
    this.timer?.cancel();
    this.telling?.cancel();
    this.histogram?.disable();
  }

  /** After a standstill both timers are late: the one that measures has to come first, or what it measures is wiped out. */
  private look(): void {
    this.telling = this.clock.after(2 * RESOLUTION_MS, () => this.tell());
  }

  private tell(): void {
    const lagMs = Math.round((this.histogram?.max ?? 0) / NS_PER_MS);
    this.histogram?.reset();
    if (lagMs > WARN_ABOVE_MS) this.logger.warn({ lagMs }, 'the event loop stood still');
  }
}
