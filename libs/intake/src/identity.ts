import { ButlerError, type Id, type SessionKey } from '#protocol';
import type { TurnRow } from '#turn-lifecycle';

/** Who acts on a turn. An admin may act for the users of the account. */
export interface Actor {
  by: string;
  isAdmin: boolean;
}

/** @throws ButlerError turn_mismatch unless the turn is this session's, and the caller's own or an admin calls */
export function assertMayAct(row: TurnRow, { sessionId }: SessionKey, { by, isAdmin }: Actor): void {
  const { turnId } = row;
  if (row.sessionId !== sessionId) {
    throw new ButlerError('turn_mismatch', 'This turn is in another session.', { turnId });
  }
  if (row.initiator !== null && row.initiator !== by && !isAdmin) {
    throw new ButlerError('turn_mismatch', 'This turn was started by another user. An admin may act on it.', {
      turnId,
    });
  }
}

/** @throws ButlerError stale_generation */
export function staleGeneration(turnId: Id, row: Pick<TurnRow, 'generation' | 'state'> | null): ButlerError {
  const present = row ? `generation ${row.generation}` : 'unborn';
  return new ButlerError(
    'stale_generation',
    `The turn is ${present}, not the generation named. Read it and act again.`,
    {
      turnId,
      ...(row && { generation: row.generation, state: row.state }),
    },
  );
}
