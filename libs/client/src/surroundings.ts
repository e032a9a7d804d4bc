/** Where the client gets time from. `Clock` of #platform is one, and so is a test's manual clock. */
export interface ClientClock {
  /** ms since 1970 UTC. */
  now(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** Where the client gets ids and jitter from. `Randomness` of #platform is one. */
export interface ClientRandomness {
  /** A new unique id that obeys the rule for ids. */
  id(): string;
  /** A number from 0 (inclusive) to 1 (exclusive). */
  fraction(): number;
}

/** What the client takes from the place where it runs: this file alone touches the globals of browsers and Node. */
export interface Surroundings {
  fetch: typeof globalThis.fetch;
  clock: ClientClock;
  randomness: ClientRandomness;
}

const ID_BYTES = 16;

export const SURROUNDINGS: Surroundings = {
  // Looked up at each call, and called as a global: a browser's fetch refuses any other `this`.
  fetch: (input, init) => globalThis.fetch(input, init),
  clock: { now: () => Date.now(), sleep },
  randomness: { id, fraction: () => Math.random() },
};

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** 128 random bits in hex. Not `randomUUID`, which browsers have only on pages that came over TLS. */
function id(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(ID_BYTES));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
