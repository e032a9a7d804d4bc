import {
  type Content,
  type EventData,
  isId,
  isTerminal,
  type Kind,
  type ModelMessage,
  type PodName,
  type Ref,
  type Room,
  type SessionKey,
  StaleOwnerError,
  type ToolCall,
} from '#protocol';
import type { Clock, Database, Randomness, StepPoints } from '#platform';
import { reportTurnId } from '#family';
import type { EventLedger, LiveEvents } from '#event-ledger';
import type { Lease } from '#session-lock';
import type { Turns } from '#turn-lifecycle';
import type { Absorption } from './absorption.js';
import {
  AgentError,
  type ModelReply,
  type ModelStep,
  type RecordedReply,
  type Toolbox,
  type ToolResult,
  type TurnContext,
} from './agent.js';
import { type AttemptExit, LeaveSignal } from './attempt-exit.js';
import type { ChildDoor } from './children.js';
import { History } from './history.js';
import { untilAnswered } from './ledger-outage.js';
import { ModelTries } from './model-tries.js';
import type { News } from './news.js';
import { settledWithin } from './settled-within.js';
import type { Started } from './start-gate.js';
import type { StepRecorder } from './step-recorder.js';
import { assertIssued, ToolBatch } from './tool-batch.js';
import type { TurnProgress } from './turn-progress.js';

export interface ContextDeps {
  database: Database;
  ledger: EventLedger;
  turns: Turns;
  live: LiveEvents;
  clock: Clock;
  randomness: Randomness;
  steps: StepPoints;
  absorption: Absorption;
  childDoor: ChildDoor;
}

/** How many events of the session are read at a time for the model input. */
const HISTORY_PAGE = 1000;
/** How long writes under way are waited for when the turn ends. Longer than the database lets any write take. */
const CLOSE_WAIT_MS = 60_000;

type Message = EventData['model.message'];

/**
 * One attempt at a turn.
 *
 * Owns: the count of model steps, the step and the tools under way. Does not own: whether it goes on (the exit), what is
 * written (the recorder). One model step at a time; the calls of a batch run side by side. A step that is recorded is
 * answered from the record (I4); a new one begins only after a look at the exit in the same turn of the event loop. A
 * draining pod is left only between steps, where every issued call has its result.
 */
export class AttemptContext implements TurnContext {
  readonly session: SessionKey;
  readonly epoch: number;
  readonly pod: PodName;
  readonly attempt: number;
  readonly turn: Ref;
  readonly kind: Kind;
  readonly content: Content;
  private readonly progress: TurnProgress;
  private readonly past: History;
  private readSeq = 0;
  private modelSteps = 0;
  private streaming: ModelTries | null = null;
  private readonly underWay = new Set<Promise<void>>();
  private readonly begunCalls = new Set<string>();
  private failure: Error | null = null;

  constructor(
    private readonly deps: ContextDeps,
    private readonly lease: Lease,
    { ref, messageKind, content, progress }: Started,
    private readonly exit: AttemptExit,
    private readonly recorder: StepRecorder,
    private readonly news: News,
    private readonly room: Room,
  ) {
    this.turn = ref;
    this.kind = messageKind;
    this.content = content;
    this.progress = progress;
    this.session = lease.session;
    this.epoch = lease.owner.epoch;
    this.pod = lease.owner;
    this.attempt = progress.attempts;
    this.past = new History(ref);
  }

  async history(): Promise<ModelMessage[]> {
    for (;;) {
      const page = await this.read(() => this.deps.ledger.events(this.session, this.readSeq, HISTORY_PAGE));
      for (const event of page) this.past.add(event);
      this.readSeq = page.at(-1)?.seq ?? this.readSeq;
      if (page.length < HISTORY_PAGE) return this.past.messages();
    }
  }

  async model(work: (step: ModelStep) => Promise<ModelReply>): Promise<RecordedReply> {
    this.assertUnbroken();
    if (this.streaming) throw new AgentError('a model step is still under way');
    const key = `model:${++this.modelSteps}`;
    const recorded = this.progress.messages.get(key);
    if (recorded) return { key, text: recorded.text, toolCalls: recorded.toolCalls, replayed: true };
    await this.beginStep(key);
    const tries = this.tries(key);
    this.streaming = tries;
    try {
      const reply = await tries.reply(work);
      this.streaming = null;
      return await this.exit.race(this.track(this.settle(tries, reply)));
    } catch (error) {
      // The next attempt would count its steps differently, so nothing may follow a step that was not recorded.
      this.failure = error as Error;
      throw error;
    }
  }

  async tools(calls: readonly ToolCall[], toolbox: Toolbox): Promise<ToolResult[]> {
    this.assertUnbroken();
    this.exit.assertMayBegin();
    assertIssued(calls, this.progress, this.begunCalls);
    for (const { callId } of calls) this.begunCalls.add(callId);
    const { recorder, progress, exit } = this;
    const facts = { ...this.session, ...this.turn, epoch: this.epoch, attempt: this.attempt };
    const batch = new ToolBatch({ ...this.deps, recorder, progress, exit }, facts, toolbox);
    await exit.race(this.track(batch.issue(calls)));
    await exit.race(Promise.all(batch.start().map((run) => this.track(run))));
    return calls.map(({ callId }) => {
      const { outcome, output } = progress.results.get(callId)!;
      return { callId, outcome, output };
    });
  }

  async children(): Promise<void> {
    this.assertUnbroken();
    if (this.progress.openCalls.length > 0) throw new AgentError('children are waited for while a tool call is open');
    for (let waits = false; ; waits = true) {
      this.exit.yieldIfDraining();
      this.news.take();
      await this.absorb();
      if (await this.allReported()) return waits ? this.exit.race(this.room.enter()) : undefined;
      this.room.leave();
      await this.exit.race(this.news.wait());
    }
  }

  /**
   * What is to be done before the turn can end: the step under way is recorded as far as it came, tools have `waitMs` to
   * return. Afterwards nothing more is recorded. The exit must have a cause by now, so that everything has been aborted.
   * @throws LeaveSignal when the turn cannot be ended now
   */
  async windUp(waitMs: number): Promise<void> {
    const { streaming } = this;
    this.streaming = null;
    if (streaming) void this.track(this.recordInterrupted(streaming)).catch(() => undefined);
    const { hard } = this.exit;
    if (this.underWay.size > 0) await settledWithin(this.deps.clock, waitMs, Promise.allSettled(this.underWay), hard);
    // A write that is still on its way could land behind the turn's end: then this attempt must not end it.
    const closed = await settledWithin(this.deps.clock, CLOSE_WAIT_MS, this.recorder.close(), hard);
    if (!closed) throw this.exit.leave({ kind: 'yield', reason: 'lease' });
  }

  /** Everything stops here; nothing more is told or stored. */
  abandon(): void {
    this.streaming?.text.abandon();
    this.streaming = null;
  }

  private async beginStep(key: string): Promise<void> {
    await this.deps.steps.reach('step.before', { turnId: this.turn.turnId, step: key });
    if (this.progress.openCalls.length === 0) {
      this.exit.yieldIfDraining();
      if (this.news.take()) await this.absorb();
    }
    await this.exit.whenCertain();
    this.exit.assertMayBegin();
    const held = this.deps.steps.reach('step.checked', { turnId: this.turn.turnId, step: key });
    if (held) await held;
  }

  private async absorb(): Promise<void> {
    try {
      await this.track(this.deps.absorption.absorb(this.lease, this.turn, this.exit));
    } catch (error) {
      if (error instanceof LeaveSignal) throw error;
      const refused = error instanceof StaleOwnerError;
      throw this.exit.leave(refused ? { kind: 'stale', refused, reason: 'lease' } : { kind: 'fault', error });
    }
  }

  /** Whether the report of every child has ended, in this turn or by itself. */
  private async allReported(): Promise<boolean> {
    const { database, turns } = this.deps;
    for (const { turnId } of this.progress.children.values()) {
      const report = await this.read(() => turns.find(database, this.session.account, reportTurnId(turnId)));
      if (!report || !(isTerminal(report.state) || report.generation > 1)) return false;
    }
    return true;
  }

  /** Reads from the ledger, through an outage of it. */
  private read<T>(query: () => Promise<T>): Promise<T> {
    return untilAnswered(this.deps, this.exit.signal, async () => {
      this.exit.assertMayBegin();
      return this.exit.race(query());
    });
  }

  private tries(key: string): ModelTries {
    const { exit, recorder, session, turn, attempt } = this;
    const isBalanced = this.progress.openCalls.length === 0;
    const deps = { ...this.deps, exit, recorder, isBalanced, mayBegin: () => this.beginStep(key) };
    return new ModelTries(deps, session, { turn, step: key, attempt });
  }

  private async settle({ key, text: stream }: ModelTries, reply: ModelReply): Promise<RecordedReply> {
    const toolCalls = reply.toolCalls ?? [];
    this.assertNewCalls(toolCalls);
    const text = await stream.end();
    const finish = reply.finish ?? (toolCalls.length > 0 ? 'tool_calls' : 'stop');
    await this.recordMessage({ step: key, attempt: this.attempt, text, toolCalls, finish, usage: reply.usage });
    return { key, text, toolCalls, replayed: false };
  }

  private async recordInterrupted(tries: ModelTries): Promise<void> {
    const text = await tries.text.breakOff();
    if (text === '') return;
    await this.recordMessage({ step: tries.key, attempt: this.attempt, text, toolCalls: [], finish: 'interrupted' });
  }

  private recordMessage({ usage, ...message }: Message): Promise<void> {
    return this.recorder.record([this.recorder.draft('model.message', usage ? { ...message, usage } : message)]);
  }

  private assertNewCalls(calls: readonly ToolCall[]): void {
    const seen = new Set<string>();
    for (const { callId } of calls) {
      if (!isId(callId)) throw new AgentError(`${JSON.stringify(callId)} cannot be the id of a tool call`);
      if (seen.has(callId) || this.progress.hasIssued(callId)) {
        throw new AgentError(`the tool call id ${callId} is used twice in this turn`);
      }
      seen.add(callId);
    }
  }

  private assertUnbroken(): void {
    if (this.failure) throw this.failure;
  }

  /** Keeps a promise in sight of `windUp`. Whoever made it has to handle its rejection; nobody else has to. */
  private track<T>(work: Promise<T>): Promise<T> {
    const settled: Promise<void> = work.then(
      () => void this.underWay.delete(settled),
      () => void this.underWay.delete(settled),
    );
    this.underWay.add(settled);
    return work;
  }
}
