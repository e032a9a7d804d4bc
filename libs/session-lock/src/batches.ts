import { partitionOf, type SessionKey } from '#protocol';

/** Splits things of many sessions into batches of at most `size`, each of one partition. Keeps the order within each. */
export function batchesByPartition<T>(things: readonly T[], sessionOf: (thing: T) => SessionKey, size: number): T[][] {
  const batches: T[][] = [];
  const open = new Map<number, T[]>();
  for (const thing of things) {
    const partition = partitionOf(sessionOf(thing));
    let batch = open.get(partition);
    if (!batch || batch.length === size) {
      batch = [];
      batches.push(batch);
      open.set(partition, batch);
    }
    batch.push(thing);
  }
  return batches;
}
