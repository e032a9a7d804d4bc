import { type Clock, type Randomness, UnavailableError } from '#platform';
import { pauseMs } from './growing-pause.js';

const PAUSE = { firstMs: 50, longestMs: 2000 };

/**
 * Repeats `act` with growing pauses while the ledger cannot be reached. There is no other limit: `act` asks before each
 * try whether it still may, and throws when not, which ends it. `signal` cuts a pause short.
 * @param act is told whether an earlier try got no clear answer, so that its work may stand already
 */
export async function untilAnswered<T>(
  { clock, randomness }: { clock: Clock; randomness: Randomness },
  signal: AbortSignal,
  act: (unclear: boolean) => Promise<T>,
): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await act(tries > 0);
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
      await pause(clock, pauseMs(PAUSE, tries, randomness), signal);
    }
  }
}

/** Resolves after `ms`, or as soon as the signal aborts. */
async function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  await clock.sleep(ms, signal).catch(() => undefined);
}
