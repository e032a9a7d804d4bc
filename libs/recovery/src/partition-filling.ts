import { Inject, Injectable, Logger } from '@nestjs/common';
import { encodeNotice, KeyNames, partitionOf, type SessionKey, sessionName } from '#protocol';
import { Channels, Clock, Randomness, Settings, StepPoints } from '#platform';
import { MessageQueue, PartitionMarks, WaitingWork } from '#message-queue';
import { type LiveTurn, Turns } from '#turn-lifecycle';
import { HeldMarks } from './held-marks.js';

/** How many lost partitions are filled by one round of queries before they are marked intact. */
const FILL_BATCH = 32;
const FILL_PAGE = 1_000;
/** So many sessions are offered to the pods when their partitions are intact again, of each round of queries. */
const OFFERS_MAX = 500;
/** How often, and how long apart, a pod looks whether another pod's filling is done. */
const FILL_LOOKS = 100;
const FILL_LOOK_MS = 50;

/**
 * Fills partitions that Redis has lost from the ledger. Whoever meets a lost one marks it, asks living owners to renew,
 * waits REFILL_WAIT_MS so that they set their locks again, restores each session's live turns in queueSeq order, and
 * marks the partition intact if its own mark still stands: a loss in between starts over. Idempotent; several pods may
 * try, the mark lets one through. It holds no more turns at a time than a page has, and the session that the page ends
 * with. Keeps I1 (no new owner beside a living one that can still renew) and I3.
 */
@Injectable()
export class PartitionFilling {
  private readonly logger = new Logger(PartitionFilling.name);
  /** Whether nobody can hold a lease of the store yet: the wait for living owners is left out then. */
  private nobodyCanOwn: boolean;

  constructor(
    @Inject(Settings) private readonly settings: Pick<Settings, 'refillWaitMs' | 'embedded'>,
    @Inject(KeyNames) private readonly keys: KeyNames,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(StepPoints) private readonly steps: StepPoints,
    @Inject(Channels) private readonly channels: Channels,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(MessageQueue) private readonly queue: MessageQueue,
    @Inject(PartitionMarks) private readonly marks: PartitionMarks,
    @Inject(WaitingWork) private readonly waitingWork: WaitingWork,
  ) {
    this.nobodyCanOwn = settings.embedded;
  }

  /** Fills every partition that is lost and in nobody's hands; answers those that are intact now. */
  async fillLost(): Promise<number[]> {
    const lost = await this.partitions('lost');
    if (lost.length > 0) await this.fill(lost);
    this.nobodyCanOwn = false;
    return this.partitions('intact');
  }

  /** Resolves when the partition is intact, or after a bounded while. */
  async ensureIntact(partition: number): Promise<void> {
    for (let look = 0; look < FILL_LOOKS; look++) {
      const state = (await this.marks.states())[partition];
      if (state === 'intact') return;
      if (state === 'lost') await this.fill([partition]);
      else await this.clock.sleep(FILL_LOOK_MS);
    }
  }

  private async partitions(wanted: string): Promise<number[]> {
    const states = await this.marks.states();
    return states.flatMap((state, partition) => (state === wanted ? [partition] : []));
  }

  private async fill(lost: readonly number[]): Promise<void> {
    const nonce = this.randomness.id();
    const mine = await this.marks.beginFilling(lost, nonce);
    if (mine.length === 0) return;
    const held = new HeldMarks(this.marks, this.clock, nonce, mine);
    await this.channels.publish(this.keys.podsChannel(), encodeNotice({ type: 'renew', partitions: mine }));
    if (!this.nobodyCanOwn) await held.wait(this.settings.refillWaitMs);
    const filled = { lost: mine.length, partitions: 0, turns: 0 };
    for (let batch = held.next(FILL_BATCH); batch.length > 0; batch = held.next(FILL_BATCH)) {
      const { intact, turns } = await this.fillBatch(batch, held);
      filled.partitions += intact;
      filled.turns += turns;
      if (turns > 0) this.logger.log({ ...filled }, 'filling lost partitions from the ledger');
    }
    this.logger.log(filled, 'filled lost partitions from the ledger');
  }

  private async fillBatch(batch: number[], held: HeldMarks): Promise<{ intact: number; turns: number }> {
    const { sessions, turns } = await this.restoreSessions(batch, held);
    await this.steps.reach('recovery.filled', { partitions: batch });
    const intact = new Set(await held.finish(batch));
    // The wake-up of restore came while nobody could acquire yet. The next sweep finds what is not offered here.
    const free = sessions.filter((session) => intact.has(partitionOf(session)));
    for (const session of free) this.waitingWork.offer(session);
    return { intact: intact.size, turns };
  }

  /** Restores each session of the partitions from its live turns, page by page; answers the first of them. */
  private async restoreSessions(
    partitions: readonly number[],
    held: HeldMarks,
  ): Promise<{ sessions: SessionKey[]; turns: number }> {
    const { nonce } = held;
    const restored = { sessions: [] as SessionKey[], turns: 0 };
    let after: LiveTurn | null = null;
    /** Of the session at the end of the pages so far: the next page may go on with it. */
    let open: LiveTurn[] = [];
    do {
      await held.keep();
      const page: LiveTurn[] = await this.turns.liveIn(partitions, Number.MAX_SAFE_INTEGER, after, FILL_PAGE);
      after = page.length === FILL_PAGE ? page.at(-1)! : null;
      const bySession = Map.groupBy([...open, ...page], (turn) => sessionName(turn.session));
      const last = after && sessionName(after.session);
      open = last === null ? [] : bySession.get(last)!;
      if (last !== null) bySession.delete(last);
      const whole = [...bySession.values()];
      await Promise.all(whole.map((turns) => this.queue.restore(turns[0]!.session, { nonce }, turns)));
      const room = OFFERS_MAX - restored.sessions.length;
      restored.sessions.push(...whole.slice(0, room).map((turns) => turns[0]!.session));
      restored.turns += whole.reduce((sum, turns) => sum + turns.length, 0);
    } while (after);
    return restored;
  }
}
