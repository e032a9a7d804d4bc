import type { ClientClock } from './surroundings.js';
import { NetworkError } from './network.error.js';

/** A signal of one's own that follows another one, until `end`: then it aborts, and nothing is left at the other. */
export class LinkedAbort {
  private readonly controller = new AbortController();

  constructor(private readonly outer: AbortSignal | undefined) {
    if (outer?.aborted) this.follow();
    else outer?.addEventListener('abort', this.follow, { once: true });
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  end(): void {
    this.outer?.removeEventListener('abort', this.follow);
    this.controller.abort();
  }

  private readonly follow = (): void => this.controller.abort(this.outer?.reason);
}

/** What `work` comes to. @throws NetworkError when that takes longer than `limitMs`; the work itself goes on */
export async function inTime<T>(clock: ClientClock, limitMs: number, what: string, work: Promise<T>): Promise<T> {
  const done = new AbortController();
  const late = clock.sleep(limitMs, done.signal).then(() => {
    throw new NetworkError(`${what} within ${limitMs / 1000} s`);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    done.abort();
  }
}
