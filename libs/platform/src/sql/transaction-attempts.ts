import type { Clock } from '../clock.js';
import type { Randomness } from '../randomness.js';
import type { StepPoints } from '../step-points.js';
import { UnavailableError } from '../unavailable.error.js';

/** How often one transaction is run at most. */
export const TRANSACTION_ATTEMPTS = 8;
/** No attempt begins later than this after the first: statements that time out are not waited for eight times. */
const REPEAT_WITHIN_MS = 10_000;
const BACKOFF_FIRST_MS = 4;
const BACKOFF_MAX_MS = 250;

/** An attempt failed in a way that another one may not: deadlock, lock wait, duplicate key, lost connection. */
export class AttemptFailedError extends Error {
  override readonly name = 'AttemptFailedError';

  /** @param committing the attempt ended with a COMMIT that got no answer: its work may stand */
  constructor(
    readonly committing: boolean,
    cause: unknown,
  ) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/**
 * Runs `attempt` until it passes or fails with another error than `AttemptFailedError`, TRANSACTION_ATTEMPTS times at
 * most and none of them later than REPEAT_WITHIN_MS, with a short jittered pause in between. `uncertain` tells it that an
 * earlier COMMIT got no answer.
 * @throws UnavailableError when all attempts failed
 */
export async function repeatAttempts<T>(
  deps: { clock: Clock; randomness: Randomness; steps: StepPoints },
  attempt: (uncertain: boolean) => Promise<T>,
): Promise<T> {
  const untilMs = deps.clock.monotonicMs() + REPEAT_WITHIN_MS;
  let uncertain = false;
  for (let attempts = 1; ; attempts++) {
    try {
      return await attempt(uncertain);
    } catch (error) {
      if (!(error instanceof AttemptFailedError)) throw error;
      uncertain ||= error.committing;
      await deps.steps.reach('database.attempt_failed', { cause: error.cause });
      if (attempts === TRANSACTION_ATTEMPTS || deps.clock.monotonicMs() > untilMs) {
        const outcome = uncertain ? 'it may have been committed' : 'nothing was committed';
        const message = `the database failed ${attempts} attempts (${outcome}): ${error.message}`;
        throw new UnavailableError('database', message, { cause: error.cause });
      }
      const pauseMs = Math.min(BACKOFF_FIRST_MS * 2 ** (attempts - 1), BACKOFF_MAX_MS);
      await deps.clock.sleep(pauseMs * (0.5 + deps.randomness.fraction()));
    }
  }
}
