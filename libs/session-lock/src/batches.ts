import { partitionOf, type SessionKey } from '#protocol';

/** How many leases one call renews at most: a bound on how long Redis is held up. */
const RENEW_BATCH = 200;

/** Splits leases, or holds, into batches that one call may renew. Keeps the order within each partition. */
export function batchesByPartition<T extends { readonly session: SessionKey }>(things: readonly T[]): T[][] {
  const batches: T[][] = [];
  const open = new Map<number, T[]>();
  for (const thing of things) {
    const partition = partitionOf(thing.session);
    let batch = open.get(partition);
    if (!batch || batch.length === RENEW_BATCH) {
      batch = [];
      batches.push(batch);
      open.set(partition, batch);
    }
    batch.push(thing);
  }
  return batches;
}
