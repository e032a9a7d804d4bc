import type { Ref } from './envelope.js';
import type { Id } from './ids.js';
import type { ChildState, Content, Kind, Meta, Mode, SRef, ToolCall, TurnError, Usage } from './shapes.js';

/**
 * A piece of a step's streamed text. `offset` counts UTF-16 units from the beginning of this try at the step. `try` is
 * left out at the first one of an attempt.
 */
export interface TextPiece {
  step: string;
  attempt: number;
  try?: number;
  offset: number;
  text: string;
}
export interface Run {
  attempt: number;
  podId: string;
  epoch: number;
}
export interface Stop {
  by: string;
  reason?: string;
  /** The stopped ancestor that this stop came from. */
  via?: Ref;
}

/** What each event of the ledger says. */
export interface EventData {
  'message.accepted': {
    content: Content;
    mode: Mode;
    kind: Kind;
    initiator: string;
    metadata?: Meta;
    parent?: SRef;
    interrupts?: Ref;
  };
  'message.edited': { content: Content; by: string };
  'message.refused': { code: string; initiator: string };
  'turn.queued': { retryOf: number; by: string };
  'turn.started': Run;
  /** `voids`: the step whose text of earlier attempts is void. */
  'turn.resumed': Run & { voids: string | null };
  'turn.absorbed': { absorbedBy: Ref };
  'turn.stop_requested': Stop;
  'turn.stopped': Stop & { gate: 'stop' | 'start' | 'running' };
  'turn.completed': { usage?: Usage };
  'turn.failed': TurnError;
  'turn.yielded': { reason: 'drain' | 'lease' | 'outage' | 'admin' };
  'model.text': TextPiece;
  /** A try at the step has failed, its text is void, and another one follows. */
  'model.failed': { step: string; attempt: number; try: number; error: TurnError; retryInMs: number };
  'model.message': {
    step: string;
    attempt: number;
    text: string;
    toolCalls: ToolCall[];
    finish: 'stop' | 'tool_calls' | 'length' | 'interrupted';
    usage?: Usage;
  };
  'tool.call': ToolCall & { repeatable: boolean };
  'tool.result': {
    callId: Id;
    outcome: 'ok' | 'error' | 'interrupted' | 'outcome_unknown';
    output: unknown;
    truncated?: true;
  };
  'child.spawned': { callId: Id; child: SRef };
  'child.reported': { child: SRef; state: ChildState; text: string };
  'owner.changed': { podId: string; boot: string; epoch: number };
}
export type EventType = keyof EventData;

/** An event as readers get it. */
export type Event = {
  [T in EventType]: {
    seq: number;
    type: T;
    turnId: Id | null;
    generation: number | null;
    at: string;
    data: EventData[T];
  };
}[EventType];

/** An event before the ledger has given it its seq and time. `turn` is null for what concerns the session alone. */
export type EventDraft = { [T in EventType]: { type: T; turn: Ref | null; data: EventData[T] } }[EventType];

/** Live text, never stored as such: what a watcher may see before its `model.text` or `model.message`. */
export interface LiveDelta {
  type: 'model.delta';
  turnId: Id;
  generation: number;
  at: string;
  data: TextPiece;
}
