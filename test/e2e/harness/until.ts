import { setTimeout as pause } from 'node:timers/promises';

const LOOK_EVERY_MS = 20;
const LIMIT_MS = 15_000;

/**
 * Looks again and again until there is an answer, and gives it back. `undefined`, `null` and `false` are none, and so is
 * a look that fails.
 * @throws Error that names what was waited for, and what the last look failed with, after `limitMs`
 */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | null | false> | T | undefined | null | false,
  limitMs = LIMIT_MS,
): Promise<T> {
  const endMs = performance.now() + limitMs;
  for (;;) {
    let failure: unknown;
    try {
      const answer = await look();
      if (answer !== undefined && answer !== null && answer !== false) return answer;
    } catch (error) {
      failure = error;
    }
    if (performance.now() > endMs) throw new Error(`${what}: not within ${limitMs} ms`, { cause: failure });
    await pause(LOOK_EVERY_MS);
  }
}
