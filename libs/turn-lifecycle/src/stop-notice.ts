import { encodeNotice, type Ref, type SessionKey, type TurnState } from '#protocol';

/** What the session's owner is told when a turn came to `state`; null when that is no stop. */
export function stopNotice(session: SessionKey, ref: Ref, state: TurnState): string | null {
  if (state !== 'stop_requested' && state !== 'stopped') return null;
  const { account, sessionId } = session;
  return encodeNotice({ type: 'stop', account, sessionId, turnId: ref.turnId, generation: ref.generation });
}
