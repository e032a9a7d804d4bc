/** A timer that can be called off. */
export interface Timer {
  cancel(): void;
}

/**
 * The only source of time. Everything that waits or looks at a clock does it here, so the whole runtime runs under a
 * manual clock as well.
 */
export abstract class Clock {
  /** Wall clock, ms since 1970 UTC. For people and records; it can jump. */
  abstract now(): number;

  /** Monotonic ms since some fixed moment. For leases, deadlines and durations. It goes on while the process is stopped. */
  abstract monotonicMs(): number;

  /** Calls `run` once after `ms`. */
  abstract after(ms: number, run: () => void): Timer;

  /** Calls `run` every `ms`, first after `ms`. */
  every(ms: number, run: () => void): Timer {
    let timer: Timer;
    const tick = (): void => {
      timer = this.after(ms, tick);
      run();
    };
    timer = this.after(ms, tick);
    return { cancel: () => timer.cancel() };
  }

  /** Resolves after `ms`; rejects with the signal's reason when it aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      const onAbort = (): void => {
        timer.cancel();
        reject(signal?.reason as Error);
      };
      const timer = this.after(ms, () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      });
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }
}

export class SystemClock extends Clock {
  now(): number {
    return Date.now();
  }

  monotonicMs(): number {
    return performance.now();
  }

  after(ms: number, run: () => void): Timer {
    const timer = setTimeout(run, ms);
    return { cancel: () => clearTimeout(timer) };
  }
}
