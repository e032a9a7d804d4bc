import { ApiError } from './api.error.js';
import { NetworkError } from './network.error.js';
import type { Surroundings } from './surroundings.js';

/** How often and how patiently a call is sent again. */
export interface RetryPolicy {
  /** How many times one call is sent, at most; 5 by default. 1: never again. */
  attempts: number;
  /** The wait after the first failure, in ms; it doubles with each further one. 250 by default. */
  baseMs: number;
  /** What it doubles up to, in ms; 5000 by default. */
  maxMs: number;
  /** A server that asks for a longer wait than this, in ms, is not waited for: the call fails at once. 60,000 by default. */
  retryAfterMaxMs: number;
}

export const RETRY_POLICY: RetryPolicy = { attempts: 5, baseMs: 250, maxMs: 5_000, retryAfterMaxMs: 60_000 };

/**
 * The wait after so many failures in a row: doubles from base to max; up to half of it is added as jitter, so that those
 * who failed together do not come back together, and nobody comes earlier than told.
 */
export function backoffMs(baseMs: number, maxMs: number, failures: number, fraction: number): number {
  return Math.min(baseMs * 2 ** (failures - 1), maxMs) * (1 + fraction / 2);
}

/**
 * Does something until it comes out well, as the policy allows.
 *
 * 429 and 503 are repeated for every call, after Retry-After and the back-off on top; failures of the network, 502 and
 * 504 only where the call `isSafe` to repeat, because what was asked may have happened.
 * Own code, because p-retry and its like keep timers of their own and know no wait that the server asks for.
 * @throws what the last attempt failed with; the signal's reason when it aborts while waiting
 */
export async function withRetries<T>(
  attempt: () => Promise<T>,
  isSafe: boolean,
  policy: RetryPolicy,
  { clock, randomness }: Surroundings,
  signal: AbortSignal | undefined,
): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await attempt();
    } catch (error) {
      if (failures >= policy.attempts || !mayRepeat(error, isSafe)) throw error;
      const askedMs = error instanceof ApiError ? (error.retryAfterS ?? 0) * 1000 : 0;
      if (askedMs > policy.retryAfterMaxMs) throw error;
      const waitMs = askedMs + backoffMs(policy.baseMs, policy.maxMs, failures, randomness.fraction());
      await clock.sleep(waitMs, signal);
    }
  }
}

function mayRepeat(error: unknown, isSafe: boolean): boolean {
  if (error instanceof NetworkError) return isSafe;
  if (!(error instanceof ApiError)) return false;
  return error.status === 429 || error.status === 503 || (error.isRetryable && isSafe);
}
