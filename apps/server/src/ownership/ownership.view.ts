import { Inject, Injectable } from '@nestjs/common';
import type { Ownership } from '#protocol';
import type { SessionRow } from '#event-ledger';
import { MessageQueue } from '#message-queue';
import { SessionLocks } from '#session-lock';
import { Turns } from '#turn-lifecycle';

/** Who serves a session, beside what the ledger and the queue say: for operators, and not one moment's picture. */
@Injectable()
export class OwnershipView {
  constructor(
    @Inject(SessionLocks) private readonly locks: Pick<SessionLocks, 'holder'>,
    @Inject(MessageQueue) private readonly queue: Pick<MessageQueue, 'lists'>,
    @Inject(Turns) private readonly turns: Pick<Turns, 'loads'>,
  ) {}

  /** @throws UnavailableError */
  async of({ session, ownerEpoch, lastSeq }: SessionRow): Promise<Ownership> {
    const [holder, { pending, processing }, [load]] = await Promise.all([
      this.locks.holder(session),
      this.queue.lists(session),
      this.turns.loads([session]),
    ]);
    const running = load?.running ?? null;
    return {
      account: session.account,
      sessionId: session.sessionId,
      owner: holder && {
        podId: holder.owner.podId,
        boot: holder.owner.boot,
        epoch: holder.owner.epoch,
        leaseRemainingMs: Math.max(0, Math.round(holder.leaseRemainingMs)),
      },
      ledgerEpoch: ownerEpoch,
      pending,
      processing,
      runningTurn: running && {
        turnId: running.turnId,
        generation: running.generation,
        state: running.state,
        attempts: running.attempts,
        startedAt: new Date(running.startedAtMs).toISOString(),
      },
      lastSeq,
    };
  }
}
