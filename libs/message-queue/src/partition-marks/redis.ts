import { type KeyNames, PARTITIONS } from '#protocol';
import type { RedisConnection, Script } from '#platform';
import { FILL_MARK_TTL_MS, fillingMark, stateOf } from '../filling-mark.js';
import { PartitionMarks, type PartitionState } from '../message-queue.js';

/** The marks as Redis strings, each in its partition's slot; see the heads of the scripts. */
export class RedisPartitionMarks extends PartitionMarks {
  private readonly claimScript: Script<0 | 1>;
  private readonly keepScript: Script<0 | 1>;
  private readonly finishScript: Script<0 | 1>;

  constructor(
    private readonly redis: RedisConnection,
    private readonly keys: KeyNames,
  ) {
    super();
    this.claimScript = redis.scripts.load(new URL('../scripts/claim-mark.lua', import.meta.url));
    this.keepScript = redis.scripts.load(new URL('../scripts/keep-filling.lua', import.meta.url));
    this.finishScript = redis.scripts.load(new URL('../scripts/finish-filling.lua', import.meta.url));
  }

  async states(): Promise<PartitionState[]> {
    const partitions = Array.from({ length: PARTITIONS }, (_, partition) => this.keys.intact(partition));
    const marks = await Promise.all(partitions.map((key) => this.redis.run((redis) => redis.get(key))));
    return marks.map(stateOf);
  }

  beginFilling(partitions: readonly number[], nonce: string): Promise<number[]> {
    const args = [fillingMark(nonce), FILL_MARK_TTL_MS];
    return this.which(partitions, (partition) => this.claimScript([this.keys.intact(partition)], args));
  }

  keepFilling(partitions: readonly number[], nonce: string): Promise<number[]> {
    const args = [fillingMark(nonce), FILL_MARK_TTL_MS];
    return this.which(partitions, (partition) => this.keepScript([this.keys.intact(partition)], args));
  }

  finishFilling(partitions: readonly number[], nonce: string): Promise<number[]> {
    const args = [fillingMark(nonce)];
    return this.which(partitions, (partition) => this.finishScript([this.keys.intact(partition)], args));
  }

  claimReconciling(partitions: readonly number[], nonce: string, ttlMs: number): Promise<number[]> {
    const args = [nonce, ttlMs];
    return this.which(partitions, (partition) => this.claimScript([this.keys.reconciling(partition)], args));
  }

  /** The partitions for which the answer is 1. */
  private async which(partitions: readonly number[], ask: (partition: number) => Promise<0 | 1>): Promise<number[]> {
    const answers = await Promise.all(partitions.map(ask));
    return partitions.filter((_, at) => answers[at] === 1);
  }
}
