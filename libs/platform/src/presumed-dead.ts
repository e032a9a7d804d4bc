import { Inject, Injectable } from '@nestjs/common';
import { Clock } from './clock.js';

/**
 * The pods that this one takes for dead. A guess that only speeds things up: who acts on it asks Redis again, in the same
 * step, whether the pod listens. Each stands for as long as a lease could.
 */
@Injectable()
export class PresumedDead {
  /** By name, until when on the monotonic clock. */
  private readonly until = new Map<string, number>();

  constructor(@Inject(Clock) private readonly clock: Clock) {}

  /** @param forMs how long it stands */
  declare(pod: string, forMs: number): void {
    const nowMs = this.clock.monotonicMs();
    for (const [other, untilMs] of this.until) if (untilMs <= nowMs) this.until.delete(other);
    this.until.set(pod, nowMs + forMs);
  }

  has(pod: string): boolean {
    return (this.until.get(pod) ?? -Infinity) > this.clock.monotonicMs();
  }

  /** It lives after all. Whether it had been taken for dead. */
  revive(pod: string): boolean {
    const had = this.has(pod);
    this.until.delete(pod);
    return had;
  }
}
