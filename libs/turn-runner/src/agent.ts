import type {
  Content,
  Id,
  Kind,
  ModelMessage,
  PodName,
  Ref,
  SessionKey,
  SRef,
  ToolCall,
  TurnError,
  Usage,
} from '#protocol';

/**
 * What answers a message. One call of `run` is one attempt at one turn. The agent does all its work in steps of the
 * context: a step that was recorded by an earlier attempt is answered from the ledger and not run again. So `run` must
 * issue the same steps in the same order when it is given the same recorded results.
 */
export abstract class Agent {
  /**
   * Resolves when the turn's work is done (it ends `completed`).
   * @throws AgentError to end the turn as failed with that error; any other error ends it as `agent_error`. Errors
   *   thrown by the context's own calls (yield, lost lease, stop) must be let through.
   */
  abstract run(turn: TurnContext): Promise<void>;
}

/** Ends the turn as failed; thrown by the work of a model step and `retryable`, only when trying again did not help. */
export class AgentError extends Error {
  override readonly name = 'AgentError';

  constructor(
    message: string,
    readonly turnError: Partial<Pick<TurnError, 'code' | 'retryable'>> = {},
    options?: { cause?: unknown },
  ) {
    super(message, options);
  }
}

/** One attempt at a turn, as the agent sees it. */
export interface TurnContext {
  readonly session: SessionKey;
  readonly turn: Ref;
  /** 1 for the first try of this generation, one more at each takeover. */
  readonly attempt: number;
  readonly epoch: number;
  readonly pod: PodName;
  /** What kind of message it answers: a `report` is a child's whose parent has ended without waiting for it. */
  readonly kind: Kind;
  readonly content: Content;

  /** The model input: everything said in the session up to here, this turn's message and steps included. Always valid. */
  history(): Promise<ModelMessage[]>;

  /**
   * One model step, named `model:1`, `model:2` … in the order of the calls. Streams what is said to the watchers, and
   * records the whole reply as soon as it is there. One at a time.
   *
   * Work that rejects with an `AgentError` whose `turnError` is `retryable` is tried again, `MODEL_TRIES_MAX` times in
   * all, after growing pauses that a stop, a drain or a lost lease ends at once. What the failed try has said is void. A
   * step whose work rejects otherwise, or too often, is not recorded, and nothing can follow it in this attempt.
   */
  model(work: (step: ModelStep) => Promise<ModelReply>): Promise<RecordedReply>;

  /**
   * Runs the tool calls of a recorded reply, all at once. Each call is recorded before it runs and its result as soon as
   * it is there. An unknown tool's result is an error. A call that was under way when an earlier attempt died runs again
   * only if its tool is repeatable; else its outcome is `outcome_unknown`.
   */
  tools(calls: readonly ToolCall[], toolbox: Toolbox): Promise<ToolResult[]>;

  /**
   * Waits until every child that this generation has spawned has reported, and takes the reports in: they stand in the
   * history then. To be called where no tool call is open.
   */
  children(): Promise<void>;
}

export interface ModelStep {
  readonly key: string;
  readonly attempt: number;
  /** 1, and one more each time that the work of this step is tried again in this attempt. */
  readonly try: number;
  /** Aborts when the turn is stopped, the lease is lost or the pod must leave. */
  readonly signal: AbortSignal;
  /** Streams a piece of the reply's text. @throws AgentError when the text becomes too long to be recorded */
  say(text: string): void;
}

export interface ModelReply {
  /** Each with an id (the id rule) that is used once in the turn. */
  toolCalls?: ToolCall[];
  /** `tool_calls` by default when there are any, else `stop`. */
  finish?: 'stop' | 'tool_calls' | 'length';
  usage?: Usage;
}

export interface RecordedReply {
  key: string;
  text: string;
  toolCalls: ToolCall[];
  /** True when an earlier attempt recorded it. */
  replayed: boolean;
}

/** Tools by name. */
export type Toolbox = ReadonlyMap<string, Tool>;

export interface Tool {
  /** Whether running it twice with the same idempotency key does no harm; may depend on the input. */
  repeatable(input: unknown): boolean;
  /** The result, JSON. An error thrown is recorded as the call's result; the model decides what to do with it. */
  run(input: unknown, call: ToolRun): Promise<unknown>;
}

export interface ToolRun {
  readonly callId: Id;
  /** Same for every run of this call: turn, generation, callId. */
  readonly idempotencyKey: string;
  readonly epoch: number;
  readonly attempt: number;
  readonly signal: AbortSignal;
  /**
   * Spawns a child: a turn of its own, in a session that is new or was opened by this one. One for each call: run again,
   * the call finds its child there. Goes on at once; see `children`.
   * @throws ButlerError when it is refused: too deep, a session of others, a full queue, a turn above that was stopped
   */
  spawn(child: { sessionId: Id; content: Content }): Promise<SRef>;
}

export interface ToolResult {
  callId: Id;
  outcome: 'ok' | 'error' | 'interrupted' | 'outcome_unknown';
  output: unknown;
}
