/**
 * A turn's life as one table. Every move is first a conditional update in the ledger, then a copy in the Redis record;
 * neither ever goes backwards within a generation (I7).
 */
export const TURN_STATES = ['queued', 'running', 'stop_requested', 'stopped', 'completed', 'failed'] as const;
export type TurnState = (typeof TURN_STATES)[number];
export type LiveState = 'queued' | 'running' | 'stop_requested';
export type TerminalState = 'stopped' | 'completed' | 'failed';

/** What can happen to a turn. `start` covers a takeover too; `absorb` is a steering message joining the running turn. */
export type TurnMove = 'start' | 'stop' | 'complete' | 'fail' | 'absorb';

const MOVES: Record<TurnState, Partial<Record<TurnMove, TurnState>>> = {
  queued: { start: 'running', stop: 'stopped', absorb: 'completed' },
  running: { start: 'running', stop: 'stop_requested', complete: 'completed', fail: 'failed' },
  // A turn whose stop was requested can only end as stopped, whichever way its work came out.
  stop_requested: { start: 'stopped', stop: 'stop_requested', complete: 'stopped', fail: 'stopped' },
  stopped: {},
  completed: {},
  failed: {},
};

/** The state after a move, or null where the move is not allowed. */
export function afterMove(state: TurnState, move: TurnMove): TurnState | null {
  return MOVES[state][move] ?? null;
}

export function isTerminal(state: TurnState): state is TerminalState {
  return state === 'stopped' || state === 'completed' || state === 'failed';
}

const RANK: Record<TurnState, number> = {
  queued: 1,
  running: 2,
  stop_requested: 3,
  stopped: 4,
  completed: 4,
  failed: 4,
};

/** The order in which a lifecycle record grows: by generation, then by state; terminal states are equal. */
export function turnRank(generation: number, state: TurnState): number {
  return generation * 10 + RANK[state];
}
