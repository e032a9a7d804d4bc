import { type KeyNames, PARTITIONS } from '#protocol';
import type { MemoryStore } from '#platform';
import { FILL_MARK_TTL_MS, fillingMark, INTACT, stateOf } from '../filling-mark.js';
import { PartitionMarks, type PartitionState } from '../message-queue.js';

/** The marks inside one process. */
export class MemoryPartitionMarks extends PartitionMarks {
  constructor(
    private readonly store: MemoryStore,
    private readonly keys: KeyNames,
  ) {
    super();
  }

  async states(): Promise<PartitionState[]> {
    return Array.from({ length: PARTITIONS }, (_, partition) => stateOf(this.store.get(this.keys.intact(partition))));
  }

  async beginFilling(partitions: readonly number[], nonce: string): Promise<number[]> {
    const mark = fillingMark(nonce);
    return partitions.filter((partition) => this.claim(this.keys.intact(partition), mark, FILL_MARK_TTL_MS));
  }

  async keepFilling(partitions: readonly number[], nonce: string): Promise<number[]> {
    const mark = fillingMark(nonce);
    return partitions.filter((partition) => {
      const key = this.keys.intact(partition);
      if (this.store.get(key) !== mark) return false;
      this.store.set(key, mark, FILL_MARK_TTL_MS);
      return true;
    });
  }

  async finishFilling(partitions: readonly number[], nonce: string): Promise<number[]> {
    return partitions.filter((partition) => {
      const key = this.keys.intact(partition);
      if (this.store.get(key) !== fillingMark(nonce)) return false;
      this.store.set(key, INTACT);
      return true;
    });
  }

  async claimReconciling(partitions: readonly number[], nonce: string, ttlMs: number): Promise<number[]> {
    return partitions.filter((partition) => this.claim(this.keys.reconciling(partition), nonce, ttlMs));
  }

  /** The twin of scripts/claim-mark.lua. */
  private claim(key: string, value: string, ttlMs: number): boolean {
    const present = this.store.get(key);
    if (present !== null && present !== value) return false;
    this.store.set(key, value, ttlMs);
    return true;
  }
}
