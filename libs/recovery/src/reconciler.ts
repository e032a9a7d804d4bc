import { Inject, Injectable, Logger } from '@nestjs/common';
import { Randomness, Settings, StepPoints } from '#platform';
import { MessageQueue, PartitionMarks, WaitingWork } from '#message-queue';
import { type LiveTurn, Turns } from '#turn-lifecycle';

/** How many live turns one query and one look at the lists take. */
const RECONCILE_PAGE = 500;

/**
 * Finds live accepted turns that stand in neither list of their session, whatever their state, and queues them in the
 * order of queueSeq: what a crash between commit and enqueue left behind, what Redis forgot (I3). Where that puts a turn
 * behind a later one, gate 3's order check mends it. Reads live turns by index only: ended turns and idle sessions cost
 * nothing. Each partition is looked at by one pod per sweep.
 */
@Injectable()
export class Reconciler {
  private readonly logger = new Logger(Reconciler.name);

  constructor(
    @Inject(Settings) private readonly settings: Pick<Settings, 'sweepIntervalMs'>,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(StepPoints) private readonly steps: StepPoints,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(MessageQueue) private readonly queue: MessageQueue,
    @Inject(PartitionMarks) private readonly marks: PartitionMarks,
    @Inject(WaitingWork) private readonly waitingWork: WaitingWork,
  ) {}

  /** @param partitions those that are intact; what is not is being filled instead */
  async reconcile(partitions: readonly number[]): Promise<void> {
    if (partitions.length === 0) return;
    // A little less than the interval, so that this pod's next sweep finds its own mark gone.
    const markMs = Math.ceil(this.settings.sweepIntervalMs * 0.8);
    const mine = await this.marks.claimReconciling(partitions, this.randomness.id(), markMs);
    if (mine.length === 0) return;
    const queuedBeforeMs = (await this.turns.nowMs()) - this.settings.sweepIntervalMs;
    let after: LiveTurn | null = null;
    do {
      const page: LiveTurn[] = await this.turns.liveIn(mine, queuedBeforeMs, after, RECONCILE_PAGE);
      await this.requeueMissing(page);
      after = page.length === RECONCILE_PAGE ? page.at(-1)! : null;
    } while (after);
  }

  private async requeueMissing(page: readonly LiveTurn[]): Promise<void> {
    if (page.length === 0) return;
    const present = await this.queue.present(page.map((turn) => ({ session: turn.session, ref: turn })));
    for (const [at, turn] of page.entries()) {
      if (present[at]) continue;
      await this.steps.reach('reconciler.requeueing', { turnId: turn.turnId });
      const queued = await this.queue.enqueue(turn.session, turn, turn);
      this.logger.log({ ...turn.session, turnId: turn.turnId, generation: turn.generation }, 'queued a stranded turn');
      if (queued.kind === 'queued' && queued.owner === null) this.waitingWork.offer(turn.session);
    }
  }
}
