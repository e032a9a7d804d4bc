import { afterMove, isTerminal, type TurnMove, type TurnState } from '#protocol';
import { type SqlValue, wellFormedJson } from '#platform';
import type { MoveFacts, TurnRow } from '../turns.js';

/** A move as the columns that it sets. */
export interface PlannedMove {
  state: TurnState;
  columns: [string, SqlValue][];
}

/** @throws Error when the table does not allow the move: a fault in the caller */
export function planMove(row: TurnRow, move: TurnMove, facts: MoveFacts): PlannedMove {
  const state = afterMove(row.state, move);
  if (state === null) throw new Error(`turn ${row.turnId} is ${row.state}: it cannot ${move}`);
  const columns: [string, SqlValue][] = [['state', state]];
  if (facts.attempts !== undefined) columns.push(['attempts', facts.attempts]);
  if (state === 'running' && row.startedAtMs === null) columns.push(['started_at', facts.nowMs]);
  // The first stop is the one that is told; a later one finds it there.
  if (facts.stop && row.stop === null) {
    const { by, reason } = facts.stop;
    columns.push(['stop_by', by], ['stop_reason', reason ?? null], ['stop_at', facts.nowMs]);
  }
  if (facts.absorbedBy && move === 'absorb') {
    const { turnId, generation } = facts.absorbedBy;
    columns.push(['absorbed_by_turn_id', turnId], ['absorbed_by_generation', generation]);
  }
  // A turn that ends as stopped has no error, whatever its work came to.
  if (facts.error && state === 'failed') columns.push(['error', wellFormedJson(facts.error)]);
  if (isTerminal(state)) columns.push(['live', null], ['ended_at', facts.nowMs]);
  return { state, columns };
}
