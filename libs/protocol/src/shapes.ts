import type { Ref } from './envelope.js';
import type { Id } from './ids.js';
import type { TerminalState, TurnState } from './turn-state.js';

/** The public shapes of the contract. Times are ISO 8601 UTC in ms from the ledger's clock. */
export type Part = { type: 'text'; text: string } | { type: 'file'; url: string; mediaType: string; name?: string };
export type Content = string | Part[];
export const MODES = ['enqueue', 'steer', 'interrupt', 'reject'] as const;
export type Mode = (typeof MODES)[number];
export type Kind = 'user' | 'report' | 'automation';
export type Meta = Record<string, string | number | boolean>;
export type SRef = Ref & { sessionId: Id };

export type Accepted = SRef & { state: 'queued'; seq: number };

export type StopAnswer = SRef & { state: 'stopped' | 'stop_requested' | 'completed' | 'failed'; already: boolean };

export interface Session {
  sessionId: Id;
  title?: string;
  metadata?: Meta;
  state: 'idle' | 'queued' | 'running';
  lastSeq: number;
  queued: number;
  runningTurn: Ref | null;
  createdAt: string;
  lastActivityAt: string;
}

export interface TurnError {
  code: string;
  message: string;
  retryable: boolean;
}

export type Turn = SRef & {
  state: TurnState;
  kind: Kind;
  mode: Mode;
  content: Content | null;
  metadata?: Meta;
  initiator: string | null;
  parent: SRef | null;
  attempts: number;
  queueSeq: number | null;
  absorbedBy: Ref | null;
  stop: { by: string; reason?: string; at: string } | null;
  error: TurnError | null;
  acceptedAt: string | null;
  startedAt: string | null;
  endedAt: string | null;
};

export interface Ownership {
  account: Id;
  sessionId: Id;
  owner: { podId: string; boot: string; epoch: number; leaseRemainingMs: number } | null;
  ledgerEpoch: number;
  pending: Ref[];
  processing: Ref | null;
  runningTurn: (Ref & { state: TurnState; attempts: number; startedAt: string }) | null;
  lastSeq: number;
}

/** A tool call as the model issued it. */
export interface ToolCall {
  callId: Id;
  name: string;
  input: unknown;
}

/** One entry of the history that a model is given. Every tool call has exactly one result, right after it. */
export type ModelMessage =
  | { role: 'system' | 'user' | 'assistant'; content: string; toolCalls?: ToolCall[] }
  | { role: 'tool'; callId: Id; content: string };

export interface Usage {
  inputTokens: number;
  outputTokens: number;
}

export type ChildState = TerminalState;
