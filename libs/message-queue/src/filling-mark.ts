import type { PartitionState } from './message-queue.js';

/** How long a filler may be silent before another pod starts over. */
export const FILL_MARK_TTL_MS = 10_000;

/** The value of a partition's `intact` key when it is a full copy of the ledger. */
export const INTACT = 'yes';

/** The value of a partition's `intact` key while the holder of this nonce fills it. */
export function fillingMark(nonce: string): string {
  return `filling:${nonce}`;
}

/** What an `intact` key says. */
export function stateOf(mark: string | null): PartitionState {
  if (mark === null) return 'lost';
  return mark === INTACT ? 'intact' : 'filling';
}
