import { ButlerError, type SessionKey } from '#protocol';

/** When a caller that met a full session may try again. */
const QUEUE_FULL_RETRY_S = 5;

/**
 * @param queued turns of the session that wait, counted under its row's lock
 * @throws ButlerError queue_full
 */
export function assertRoom({ sessionId }: SessionKey, queued: number, settings: { queueMaxPending: number }): void {
  if (queued < settings.queueMaxPending) return;
  throw new ButlerError(
    'queue_full',
    `${settings.queueMaxPending} messages wait in this session already. Post again when some have run.`,
    { sessionId, retryAfterS: QUEUE_FULL_RETRY_S },
  );
}
