import { ButlerError, type Id } from '#protocol';
import type { TurnRow } from '#turn-lifecycle';

/** The turn of a message that is sent again. @throws ButlerError turn_stopped, turn_mismatch */
export function sameMessage(known: TurnRow, sessionId: Id, digest: string): TurnRow {
  const { turnId } = known;
  if (known.digest === digest) return known;
  if (known.acceptedSeq === null && known.sessionId === sessionId) {
    throw new ButlerError('turn_stopped', 'This turn was stopped before its message came. Post under another turnId.', {
      turnId,
      generation: known.generation,
      state: known.state,
    });
  }
  throw new ButlerError(
    'turn_mismatch',
    'This turnId was used for another session, initiator or content. Post under another turnId.',
    { turnId },
  );
}
