import type { Event, EventData, Id, SRef, Usage } from '#protocol';

type Message = EventData['model.message'];
type Call = EventData['tool.call'];
type Result = EventData['tool.result'];

/**
 * What the ledger has recorded of one generation of a turn, folded from its events in order: the steps to replay, the
 * balance of tool calls, and how its attempts went.
 */
export class TurnProgress {
  /** By step, e.g. `model:1`. */
  readonly messages = new Map<string, Message>();
  readonly calls = new Map<Id, Call>();
  readonly results = new Map<Id, Result>();
  /** The children spawned, by the call that did. */
  readonly children = new Map<Id, SRef>();
  /** Attempts begun: 1 with `turn.started`, one more with each `turn.resumed`. */
  attempts = 0;
  private readonly issued = new Set<Id>();
  private barrenBefore = 0;
  private hasRecorded = false;
  private isExcused = false;
  private reports = 0;

  static of(events: Iterable<Event>): TurnProgress {
    const progress = new TurnProgress();
    for (const event of events) progress.apply(event);
    return progress;
  }

  apply(event: Event): void {
    switch (event.type) {
      case 'turn.started':
      case 'turn.resumed':
        return this.beginAttempt();
      case 'turn.yielded':
        // Leaving for the sake of the pod or of Redis says nothing about the turn; losing the lease might.
        this.isExcused = event.data.reason !== 'lease';
        return;
      case 'model.message':
        if (!this.messages.has(event.data.step)) this.messages.set(event.data.step, event.data);
        for (const { callId } of event.data.toolCalls) this.issued.add(callId);
        this.hasRecorded = true;
        return;
      case 'tool.call':
        this.calls.set(event.data.callId, event.data);
        this.issued.add(event.data.callId);
        return;
      case 'child.spawned':
        this.children.set(event.data.callId, event.data.child);
        return;
      case 'child.reported':
        this.reports++;
        this.hasRecorded = true;
        return;
      case 'tool.result':
        this.results.set(event.data.callId, event.data);
        this.hasRecorded = true;
        return;
      default:
        return;
    }
  }

  /** Attempts in a row, the last one included, that recorded no step and have no excuse. One that may wait for children has. */
  get barrenAttempts(): number {
    return this.attempts === 0 ? 0 : this.barrenAfterThis();
  }

  hasIssued(callId: Id): boolean {
    return this.issued.has(callId);
  }

  /** Calls issued that have no result yet, in the order of their issue. The balance is their number. */
  get openCalls(): Id[] {
    return [...this.issued].filter((callId) => !this.results.has(callId));
  }

  /**
   * The step whose text, as far as watchers have seen some of it, is void when the turn is taken over now: the model
   * step that comes next. None while a tool call is open: then it was not a model step that was under way.
   */
  get voidStep(): string | null {
    return this.openCalls.length > 0 ? null : `model:${this.messages.size + 1}`;
  }

  /** What the turn has said last; empty when it has said nothing. */
  get lastWords(): string {
    return [...this.messages.values()].findLast(({ text }) => text !== '')?.text ?? '';
  }

  /** What all model steps used together; undefined when none of them told. */
  get usage(): Usage | undefined {
    let sum: Usage | undefined;
    for (const { usage } of this.messages.values()) {
      if (!usage) continue;
      sum = {
        inputTokens: (sum?.inputTokens ?? 0) + usage.inputTokens,
        outputTokens: (sum?.outputTokens ?? 0) + usage.outputTokens,
      };
    }
    return sum;
  }

  /** Children have not reported yet, and no call is open. */
  private get mayWait(): boolean {
    return this.children.size > this.reports && this.openCalls.length === 0;
  }

  private beginAttempt(): void {
    if (this.attempts > 0) this.barrenBefore = this.barrenAfterThis();
    this.attempts++;
    this.hasRecorded = false;
    this.isExcused = false;
  }

  private barrenAfterThis(): number {
    if (this.hasRecorded) return 0;
    return this.isExcused || this.mayWait ? this.barrenBefore : this.barrenBefore + 1;
  }
}
