import {
  type Event,
  type EventData,
  type EventDraft,
  type EventType,
  type Ref,
  StaleOwnerError,
  type TurnState,
} from '#protocol';
import type { Clock, Randomness, StepPoints } from '#platform';
import { type EventLedger, EventTooLargeError, type LiveEvents } from '#event-ledger';
import type { Lease } from '#session-lock';
import type { Turns } from '#turn-lifecycle';
import { AgentError } from './agent.js';
import { type AttemptExit, LeaveSignal } from './attempt-exit.js';
import { untilAnswered } from './ledger-outage.js';
import type { TurnProgress } from './turn-progress.js';

export interface RecorderDeps {
  ledger: EventLedger;
  turns: Turns;
  live: LiveEvents;
  clock: Clock;
  randomness: Randomness;
  steps: StepPoints;
}

/**
 * Records what one attempt has done.
 *
 * Owns: the appends of the attempt and its progress, which grows with each commit. Does not own: whether the attempt goes
 * on (its exit). Appends may run side by side. Every append is fenced by the lease's epoch (I1), is made only while the
 * lease is trusted, and keeps its id through an outage, so it is never doubled (I4). Once closed it writes nothing more:
 * a late result is refused.
 */
export class StepRecorder {
  private readonly inFlight = new Set<Promise<unknown>>();
  private closed = false;

  constructor(
    private readonly deps: RecorderDeps,
    private readonly lease: Lease,
    private readonly turn: Ref,
    private readonly exit: AttemptExit,
    private readonly progress: TurnProgress,
  ) {}

  draft<T extends EventType>(type: T, data: EventData[T]): EventDraft {
    return { type, turn: this.turn, data } as EventDraft;
  }

  /**
   * Appends events in one commit and tells the watchers. Waits through an outage of the ledger while the lease lives.
   * @throws LeaveSignal when the attempt is over; AgentError when an event is larger than the ledger keeps
   */
  async record(events: readonly EventDraft[]): Promise<void> {
    const append = this.append(events);
    this.inFlight.add(append);
    try {
      this.committed(await append);
    } catch (error) {
      const explained = this.explain(error);
      if (error instanceof StaleOwnerError) await this.deps.steps.reach('append.refused', this.facts(events));
      throw explained;
    } finally {
      this.inFlight.delete(append);
    }
  }

  /** From now on nothing is written. Resolves when no append is under way any more. Never rejects. */
  async close(): Promise<void> {
    this.closed = true;
    await Promise.allSettled(this.inFlight);
  }

  private async append(events: readonly EventDraft[]): Promise<Event[]> {
    const { ledger, turns, randomness, steps } = this.deps;
    const facts = this.facts(events);
    const append = {
      id: randomness.id(),
      writer: { kind: 'owner', epoch: this.lease.owner.epoch } as const,
      events,
    };
    return untilAnswered(this.deps, this.exit.hard, async () => {
      await steps.reach('append.before', facts);
      this.assertMayWrite();
      const held = steps.reach('append.checked', facts);
      if (held) await held;
      return ledger.appendGrouped(this.lease.session, append, {
        read: (tx) => turns.stateIn(tx, this.lease.session.account, this.turn.turnId),
        heard: (turn) => this.heard(turn),
      });
    });
  }

  /** Every append tells whether the turn is to stop, should the notice have been lost. */
  private heard(turn: { generation: number; state: TurnState } | null): void {
    const isToStop = turn?.state === 'stop_requested' && turn.generation === this.turn.generation;
    if (isToStop) this.exit.leave({ kind: 'stop' });
  }

  private facts(events: readonly EventDraft[]) {
    return { turnId: this.turn.turnId, types: events.map(({ type }) => type), epoch: this.lease.owner.epoch };
  }

  private assertMayWrite(): void {
    if (this.closed) throw new LeaveSignal(this.exit.cause ?? { kind: 'over' });
    this.exit.assertMayRecord();
  }

  private committed(events: readonly Event[]): void {
    for (const event of events) this.progress.apply(event);
    this.deps.live.committed(this.lease.session, events);
  }

  private explain(error: unknown): Error {
    if (error instanceof LeaveSignal) return error;
    if (error instanceof StaleOwnerError) return this.exit.leave({ kind: 'stale', refused: true, reason: 'lease' });
    if (error instanceof EventTooLargeError) {
      return new AgentError('a step is larger than the ledger keeps', {}, { cause: error });
    }
    return this.exit.leave({ kind: 'fault', error });
  }
}
