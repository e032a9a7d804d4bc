import type { EventDraft, Id, Ref, Stop, TurnError, Usage } from '#protocol';
import { wellFormed } from '#platform';
import type { TurnRow } from '#turn-lifecycle';
import { AgentError } from './agent.js';

/** How an attempt's work came out. A stop that was requested meanwhile beats the other two. */
export type TurnEnd =
  | { kind: 'complete'; usage?: Usage }
  | { kind: 'fail'; error: TurnError }
  /** The work was broken off because a stop was requested. */
  | { kind: 'stop' };

const ERROR_MESSAGE_MAX = 2000;

/** The results that close a turn's open calls, so that the history stays valid model input. */
export function interruptedResults(turn: Ref, openCalls: readonly Id[]): EventDraft[] {
  return openCalls.map((callId) => ({
    type: 'tool.result',
    turn,
    data: { callId, outcome: 'interrupted', output: null },
  }));
}

/** Who asked for the stop, as `turn.stopped` says it. */
export function stopFacts({ stop }: TurnRow): Stop {
  const { by = '', reason, via } = stop ?? {};
  return { by, ...(reason !== undefined && { reason }), ...(via && { via }) };
}

/** What the agent threw, as the turn's error: words for people, no stack. */
export function turnErrorOf(thrown: unknown): TurnError {
  const text = thrown instanceof Error ? thrown.message || thrown.name : String(thrown);
  const message = wellFormed(text.slice(0, ERROR_MESSAGE_MAX));
  const given = thrown instanceof AgentError ? thrown.turnError : {};
  return { code: given.code ?? 'agent_error', message, retryable: given.retryable ?? false };
}
