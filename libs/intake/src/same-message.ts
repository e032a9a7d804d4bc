import { ButlerError, type Id } from '#protocol';
import type { TurnRow } from '#turn-lifecycle';

/** The turn of a message that is sent again. @throws ButlerError turn_stopped, turn_mismatch */
export function sameMessage(known: TurnRow, message: { sessionId: Id; initiator: string }, digest: string): TurnRow {
  const { turnId } = known;
  if (known.digest === digest) return known;
  if (isTombstoneOf(known, message)) {
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

/** Whether this turn was stopped before this message came. */
export function isTombstoneOf(known: TurnRow, { sessionId, initiator }: { sessionId: Id; initiator: string }): boolean {
  const isTheirs = known.initiator === null || known.initiator === initiator;
  return known.acceptedSeq === null && known.sessionId === sessionId && isTheirs;
}
