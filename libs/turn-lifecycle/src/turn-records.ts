import type { Ref, SessionKey, TurnState } from '#protocol';

/**
 * The lifecycle record of a turn: a copy of the ledger's decision, kept TURN_RECORD_TTL_MS. It only grows, by generation
 * and then by state (I8): an older fact changes nothing.
 * @throws UnavailableError when coordination cannot be reached
 */
export abstract class TurnRecords {
  /** Advances the record; whether that was news. */
  abstract advance(session: SessionKey, ref: Ref, state: TurnState): Promise<boolean>;

  /** The record as it stands, or null. */
  abstract read(session: SessionKey, turnId: string): Promise<{ generation: number; state: TurnState } | null>;
}
