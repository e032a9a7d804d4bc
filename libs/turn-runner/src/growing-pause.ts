import type { Randomness } from '#platform';

/** The pauses between tries: doubled each time, up to a longest one. */
export interface GrowingPause {
  firstMs: number;
  longestMs: number;
}

/**
 * The pause after so many failed tries before it, in ms. Half of it is fixed, half of it random, so that many turns do
 * not come back at the same moment.
 */
export function pauseMs({ firstMs, longestMs }: GrowingPause, earlier: number, randomness: Randomness): number {
  const ms = Math.min(longestMs, firstMs * 2 ** Math.min(earlier, 20));
  return ms / 2 + (ms / 2) * randomness.fraction();
}
