import { Inject, Injectable } from '@nestjs/common';
import { type Owner, podName, type Ref, type SessionKey, type SRef } from '#protocol';
import { PodIdentity, PresumedDead, UnavailableError } from '#platform';
import { MessageQueue } from './message-queue.js';
import { WaitingWork } from './waiting-work.js';

/** A turn that the ledger has put in line, as its row has it. */
export interface QueuedTurn extends SessionKey, Ref {
  initiator: string | null;
  parent: SRef | null;
}

/**
 * Queues a turn that the ledger has put in line, and sees to it that somebody serves its session. A hint like every
 * notification: what fails here, the reconciler mends (I3).
 */
@Injectable()
export class Handover {
  constructor(
    @Inject(MessageQueue) private readonly queue: MessageQueue,
    @Inject(WaitingWork) private readonly waitingWork: WaitingWork,
    @Inject(PodIdentity) private readonly pod: PodIdentity,
    @Inject(PresumedDead) private readonly dead: PresumedDead,
  ) {}

  /** @param ownerEpoch the newest epoch that has claimed the session, where it has just been read from the ledger */
  async hand(turn: QueuedTurn, ownerEpoch?: number): Promise<void> {
    const { account, sessionId, turnId, generation, initiator, parent } = turn;
    const session = { account, sessionId };
    const facts = { initiator: initiator ?? '', parent: parent?.turnId ?? null };
    try {
      const queued = await this.queue.enqueue(session, { turnId, generation }, facts);
      if (queued.kind === 'queued' && this.isForHere(queued.owner)) this.waitingWork.offer(session, ownerEpoch);
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
    }
  }

  /** An owner in this pod need not wait for the notice that is on its way; one that is gone does not hear it. */
  private isForHere(owner: Owner | null): boolean {
    if (owner === null) return true;
    const pod = podName(owner);
    return pod === podName(this.pod) || this.dead.has(pod);
  }
}
