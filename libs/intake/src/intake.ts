import { Inject, Injectable } from '@nestjs/common';
import { type Accepted, ButlerError, type Id, isTerminal, type Meta, podName, type SessionKey } from '#protocol';
import { CoordinationHealth, PodIdentity, Randomness, StepPoints, UnavailableError } from '#platform';
import { EventLedger, LiveEvents, type SessionRow } from '#event-ledger';
import { MessageQueue, WaitingWork } from '#message-queue';
import type { TurnRow } from '#turn-lifecycle';
import { AdmissionGate, type PostedMessage } from './admission.gate.js';
import { digestOf } from './message-digest.js';

/**
 * The one door for every producer: decide in the ledger, then queue, then wake.
 *
 * Owns: the order of these steps. Does not own: the order of a session's turns (the ledger's seq) or who serves it.
 * Once the ledger has committed, the message is accepted whatever happens to this process or to Redis: the reconciler
 * queues what was left out (I3).
 */
@Injectable()
export class Intake {
  constructor(
    @Inject(AdmissionGate) private readonly gate: AdmissionGate,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(LiveEvents) private readonly live: LiveEvents,
    @Inject(MessageQueue) private readonly queue: MessageQueue,
    @Inject(WaitingWork) private readonly waitingWork: WaitingWork,
    @Inject(CoordinationHealth) private readonly coordination: CoordinationHealth,
    @Inject(PodIdentity) private readonly pod: PodIdentity,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(StepPoints) private readonly steps: StepPoints,
  ) {}

  /**
   * Accepts a message, or finds it accepted: posting the same message again answers what the first post was answered.
   * @throws ButlerError turn_mismatch, turn_stopped, session_busy, queue_full; UnavailableError: of 'redis' before anything
   *   is written, of 'database' it may have been: post again, under the same turnId
   */
  async postMessage(message: PostedMessage): Promise<{ accepted: Accepted; replayed: boolean }> {
    await this.coordination.assertUp();
    const { turn, events, ownerEpoch } = await this.gate.admit(message);
    this.live.committed(message, events);
    await this.steps.reach('intake.committed', { turnId: turn.turnId });
    if (!isTerminal(turn.state)) await this.hand(turn, ownerEpoch);
    await this.steps.reach('intake.queued', { turnId: turn.turnId });
    const { sessionId, turnId, acceptedSeq } = turn;
    return {
      accepted: { sessionId, turnId, generation: 1, state: 'queued', seq: acceptedSeq! },
      replayed: events.length === 0,
    };
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

  /** Queues an accepted turn and sees to it that somebody serves it. What fails here, the reconciler mends. */
  private async hand(turn: TurnRow, ownerEpoch: number): Promise<void> {
    const session: SessionKey = { account: turn.account, sessionId: turn.sessionId };
    const facts = { initiator: turn.initiator ?? '', parent: turn.parent?.turnId ?? null };
    try {
      const queued = await this.queue.enqueue(session, turn, facts);
      // An owner in this pod need not wait for the notice that is on its way.
      const isHere = queued.kind === 'queued' && (queued.owner === null || podName(queued.owner) === podName(this.pod));
      if (isHere) this.waitingWork.offer(session, ownerEpoch);
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
    }
  }
}
