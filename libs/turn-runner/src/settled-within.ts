import type { Clock } from '#platform';

/** Waits for `work` for `ms` at most, or until the signal aborts; whether it settled in time. Never rejects. */
export async function settledWithin(
  clock: Clock,
  ms: number,
  work: Promise<unknown>,
  signal?: AbortSignal,
): Promise<boolean> {
  const waiting = new AbortController();
  const settled = work.then(
    () => true,
    () => true,
  );
  const late = clock.sleep(ms, signal ? AbortSignal.any([waiting.signal, signal]) : waiting.signal).then(
    () => false,
    () => false,
  );
  try {
    return await Promise.race([settled, late]);
  } finally {
    waiting.abort(new Error('settled'));
  }
}
