import { afterMove, isTerminal, type TurnMove, type TurnState } from '#protocol';
import { type SqlValue, wellFormedJson } from '#platform';
import type { MoveFacts, StopOrder, TurnRow } from '../turns.js';

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
  if (facts.stop && row.stop === null) columns.push(...stopColumns(facts.stop, facts.nowMs));
  if (facts.absorbedBy && move === 'absorb') {
    const { turnId, generation } = facts.absorbedBy;
    columns.push(['absorbed_by_turn_id', turnId], ['absorbed_by_generation', generation]);
  }
  // A turn that ends as stopped has no error, whatever its work came to.
  if (facts.error && state === 'failed') columns.push(['error', wellFormedJson(facts.error)]);
  if (isTerminal(state)) columns.push(['live', null], ['ended_at', facts.nowMs]);
  return { state, columns };
}

/** The next generation of a turn that has ended, back in line at `seq`: a clean slate. */
export function planRetry(row: TurnRow, seq: number, nowMs: number): PlannedMove {
  return {
    state: 'queued',
    columns: [
      ...nextGeneration(row, 'queued'),
      ...([
        ['live', 1],
        ['queue_seq', seq],
        ['queued_at', nowMs],
        ['ended_at', null],
      ] satisfies [string, SqlValue][]),
      ...NO_STOP,
    ],
  };
}

/** The next generation of a turn that has ended, stopped before anybody asked for it. It keeps its place in the list. */
export function planStopAhead(row: TurnRow, stop: StopOrder, nowMs: number): PlannedMove {
  return {
    state: 'stopped',
    columns: [...nextGeneration(row, 'stopped'), ['ended_at', nowMs], ...stopColumns(stop, nowMs)],
  };
}

const NO_STOP: [string, SqlValue][] = [
  'stop_by',
  'stop_reason',
  'stop_at',
  'stop_via_turn_id',
  'stop_via_generation',
].map((column) => [column, null]);

function nextGeneration(row: TurnRow, state: TurnState): [string, SqlValue][] {
  if (!isTerminal(row.state)) throw new Error(`turn ${row.turnId} is ${row.state}: it has no next generation yet`);
  return [
    ['state', state],
    ['generation', row.generation + 1],
    ['attempts', 0],
    ['absorbed_by_turn_id', null],
    ['absorbed_by_generation', null],
    ['error', null],
    ['started_at', null],
  ];
}

function stopColumns({ by, reason, via }: StopOrder, nowMs: number): [string, SqlValue][] {
  return [
    ['stop_by', by],
    ['stop_reason', reason ?? null],
    ['stop_at', nowMs],
    ['stop_via_turn_id', via?.turnId ?? null],
    ['stop_via_generation', via?.generation ?? null],
  ];
}
