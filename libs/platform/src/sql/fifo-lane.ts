import type { Clock } from '../clock.js';

/** How many may wait in a lane. */
const LANE_MAX_WAITING = 10_000;

/** Lets one through at a time, in the order of asking. */
export class FifoLane {
  private taken = false;
  private readonly waiting = new Set<() => void>();

  constructor(private readonly clock: Clock) {}

  /** Whether the lane could be taken within `waitMs`. Whoever has it calls `leave` once. */
  async enter(waitMs: number): Promise<boolean> {
    if (!this.taken) {
      this.taken = true;
      return true;
    }
    if (this.waiting.size >= LANE_MAX_WAITING) return false;
    return new Promise((resolve) => {
      const admit = (): void => {
        timer.cancel();
        resolve(true);
      };
      const timer = this.clock.after(waitMs, () => {
        this.waiting.delete(admit);
        resolve(false);
      });
      this.waiting.add(admit);
    });
  }

  leave(): void {
    const [next] = this.waiting;
    if (!next) {
      this.taken = false;
      return;
    }
    this.waiting.delete(next);
    next();
  }
}
