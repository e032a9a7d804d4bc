import { Inject, Injectable } from '@nestjs/common';
import {
  type Accepted,
  ButlerError,
  type Id,
  isTerminal,
  type Meta,
  type SessionKey,
  type SRef,
  type StopAnswer,
} from '#protocol';
import { CoordinationHealth, Randomness, StepPoints, UnavailableError } from '#platform';
import { EventLedger, LiveEvents, type SessionRow } from '#event-ledger';
import { type Decided, Reports } from '#family';
import { Handover } from '#message-queue';
import { TurnRecords } from '#turn-lifecycle';
import { AdmissionGate } from './admission.gate.js';
import type { Admission, PostedMessage } from './arrival.js';
import { type Edited, EditGate, type EditRequest } from './edit.gate.js';
import { InterruptGate } from './interrupt.gate.js';
import { digestOf } from './message-digest.js';
import { Refusals } from './refusals.js';
import { RetryGate, type RetryRequest } from './retry.gate.js';
import { SpawnGate, type SpawnRequest } from './spawn.gate.js';
import { StopGate, type StopRequest } from './stop.gate.js';

/**
 * The one door for every producer, and the one stop: decide in the ledger, then queue or tell, then wake.
 *
 * Owns: the order of these steps. Does not own: the order of a session's turns (the ledger's seq) or who serves it.
 * Once the ledger has committed, the message is accepted whatever happens to this process or to Redis: the reconciler
 * queues what was left out (I3).
 */
@Injectable()
export class Intake {
  constructor(
    @Inject(AdmissionGate) private readonly admission: AdmissionGate,
    @Inject(InterruptGate) private readonly interrupts: InterruptGate,
    @Inject(EditGate) private readonly edits: EditGate,
    @Inject(StopGate) private readonly stops: StopGate,
    @Inject(RetryGate) private readonly retries: RetryGate,
    @Inject(SpawnGate) private readonly spawns: SpawnGate,
    @Inject(Refusals) private readonly refusals: Refusals,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(LiveEvents) private readonly live: LiveEvents,
    @Inject(TurnRecords) private readonly records: TurnRecords,
    @Inject(Reports) private readonly reports: Reports,
    @Inject(Handover) private readonly handover: Handover,
    @Inject(CoordinationHealth) private readonly coordination: CoordinationHealth,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(StepPoints) private readonly steps: StepPoints,
  ) {}

  /**
   * Accepts a message, or finds it accepted: posting the same message again answers what the first post was answered. One
   * that interrupts stops the turn that runs, once.
   * @throws ButlerError turn_mismatch, turn_stopped, session_busy, queue_full; UnavailableError: of 'redis' before anything
   *   is written, of 'database' it may have been: post again, under the same turnId
   */
  async postMessage(message: PostedMessage): Promise<{ accepted: Accepted; replayed: boolean }> {
    await this.coordination.assertUp();
    const { turn, events, ownerEpoch, decided } = await this.admit(message);
    this.live.committed(message, events);
    await this.steps.reach('intake.committed', { turnId: turn.turnId });
    await this.announce(decided);
    if (!isTerminal(turn.state)) await this.handover.hand(turn, ownerEpoch);
    await this.steps.reach('intake.queued', { turnId: turn.turnId });
    const { sessionId, turnId, acceptedSeq } = turn;
    return {
      accepted: { sessionId, turnId, generation: 1, state: 'queued', seq: acceptedSeq! },
      replayed: events.length === 0,
    };
  }

  /**
   * Stops a turn and everything below it. Decided in the ledger, so it needs no Redis: who runs the turn is told at once,
   * or finds it at its next append or sweep.
   * @throws ButlerError turn_mismatch, stale_generation; UnavailableError of 'database': it may have happened, ask again
   */
  async stopTurn(request: StopRequest): Promise<StopAnswer> {
    const { ref, state, already, decided, reported } = await this.stops.stop(request);
    await this.steps.reach('stop.committed', { turnId: ref.turnId });
    await this.announce(decided);
    await this.reports.deliver(reported);
    return { sessionId: request.sessionId, ...ref, state: state as StopAnswer['state'], already };
  }

  /**
   * Begins the next generation of a turn that has ended; the same call again is answered as the first time.
   * @throws ButlerError not_found, turn_mismatch, turn_stopped, turn_ended, stale_generation, queue_full; UnavailableError
   */
  async retryTurn(request: RetryRequest): Promise<{ accepted: Accepted; replayed: boolean }> {
    await this.coordination.assertUp();
    const { turn, ref, seq, events, decided, ownerEpoch } = await this.retries.retry(request);
    this.live.committed(request, events);
    await this.steps.reach('retry.committed', { turnId: ref.turnId });
    await this.announce(decided);
    if (turn.generation === ref.generation && !isTerminal(turn.state)) await this.handover.hand(turn, ownerEpoch);
    const { sessionId } = request;
    return { accepted: { sessionId, ...ref, state: 'queued', seq }, replayed: events.length === 0 };
  }

  /**
   * Changes the content of a message that still waits.
   * @throws ButlerError not_found, turn_mismatch, turn_ended; UnavailableError of 'database': it may have happened, ask again
   */
  async editMessage(request: EditRequest): Promise<Edited['turn']> {
    const { turn, events } = await this.edits.edit(request);
    this.live.committed(request, events);
    return turn;
  }

  /**
   * Accepts a child of a running turn, or finds it accepted.
   * @throws ButlerError turn_stopped, turn_mismatch, queue_full, validation_failed; StaleOwnerError; UnavailableError
   */
  async spawnChild(request: SpawnRequest): Promise<{ child: SRef }> {
    const { turn, events, ownerEpoch } = await this.spawns.spawn(request);
    this.live.committed(turn, events.child);
    this.live.committed(request.parent, events.parent);
    await this.steps.reach('spawn.committed', { turnId: turn.turnId });
    if (!isTerminal(turn.state)) await this.handover.hand(turn, ownerEpoch);
    const { sessionId, turnId, generation } = turn;
    return { child: { sessionId, turnId, generation } };
  }

  /**
   * Creates a session, or finds the one that the same call created before.
   * @throws ButlerError session_exists, UnavailableError
   */
  async createSession(given: {
    account: Id;
    sessionId: Id | null;
    title: string | null;
    metadata: Meta | null;
  }): Promise<SessionRow> {
    const session: SessionKey = { account: given.account, sessionId: given.sessionId ?? this.randomness.id() };
    const { title, metadata } = given;
    const digest = digestOf({ title, metadata });
    const { created, row } = await this.ledger.createSession(session, { title, metadata, digest });
    // A session that its first message has opened was created with neither.
    const createdAs = row.digest === '' ? digestOf({ title: null, metadata: null }) : row.digest;
    if (!created && createdAs !== digest) {
      throw new ButlerError(
        'session_exists',
        'A session of this id exists with another title or metadata. Read it, or choose another sessionId.',
        { sessionId: session.sessionId },
      );
    }
    return row;
  }

  private async admit(message: PostedMessage): Promise<Admission> {
    try {
      return await (message.mode === 'interrupt' ? this.interrupts : this.admission).admit(message);
    } catch (error) {
      await this.noteRefusal(message, error);
      throw error;
    }
  }

  /** Watchers and the record are told what has been decided; the ledger has it already, so what fails here is found. */
  private async announce(decided: readonly Decided[]): Promise<void> {
    for (const { session, events } of decided) this.live.committed(session, events);
    const told = decided.map(({ session, ref, state }) => this.records.advance(session, ref, state));
    for (const outcome of await Promise.allSettled(told)) {
      if (outcome.status === 'rejected' && !(outcome.reason instanceof UnavailableError)) throw outcome.reason;
    }
  }

  private async noteRefusal(message: PostedMessage, error: unknown): Promise<void> {
    if (!(error instanceof ButlerError) || error.code !== 'turn_stopped' || message.turnId === null) return;
    this.live.committed(message, await this.refusals.note(message, message.turnId, message.initiator));
  }
}
