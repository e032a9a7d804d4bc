import type { Clock } from '#platform';
import { FILL_MARK_TTL_MS, type PartitionMarks } from '#message-queue';

/** How long a mark is left alone. Twice that is still less than it stands. */
const KEEP_EVERY_MS = FILL_MARK_TTL_MS / 3;

/**
 * The marks of the partitions that one filling still has before it. They are kept for as long as it gets on, so that it
 * may take longer than a mark stands; one that ran out, or was flushed, is never set again here: others start over.
 */
export class HeldMarks {
  private keptMs: number;

  constructor(
    private readonly marks: PartitionMarks,
    private readonly clock: Clock,
    readonly nonce: string,
    private left: readonly number[],
  ) {
    this.keptMs = clock.monotonicMs();
  }

  /** Waits for `ms`. */
  async wait(ms: number): Promise<void> {
    for (let leftMs = ms; leftMs > 0; leftMs -= KEEP_EVERY_MS) {
      await this.clock.sleep(Math.min(leftMs, KEEP_EVERY_MS));
      await this.keep();
    }
  }

  /** To be called again and again; does something now and then. */
  async keep(): Promise<void> {
    const nowMs = this.clock.monotonicMs();
    if (nowMs - this.keptMs < KEEP_EVERY_MS) return;
    this.keptMs = nowMs;
    this.left = await this.marks.keepFilling(this.left, this.nonce);
  }

  /** Some of those that are left, at most `count`. */
  next(count: number): number[] {
    return this.left.slice(0, count);
  }

  /** Marks these as intact; which of them. None of them is left afterwards. */
  async finish(batch: readonly number[]): Promise<number[]> {
    this.left = this.left.filter((partition) => !batch.includes(partition));
    return this.marks.finishFilling(batch, this.nonce);
  }
}
