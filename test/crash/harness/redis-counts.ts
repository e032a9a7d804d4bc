import type { Redis } from 'ioredis';

/** How often each command has been called since the server's start, by scripts included. */
export type CommandCounts = ReadonlyMap<string, number>;

export async function commandCounts(redis: Redis): Promise<CommandCounts> {
  const info = await redis.info('commandstats');
  const counts = new Map<string, number>();
  for (const [, name, calls] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) counts.set(name!, Number(calls));
  return counts;
}

/** What was called from the first look to the second one. */
export function callsBetween(before: CommandCounts, after: CommandCounts): (name: string) => number {
  return (name) => (after.get(name) ?? 0) - (before.get(name) ?? 0);
}

/** How many connections pods have. */
export async function podConnections(redis: Redis): Promise<number> {
  const list = (await redis.client('LIST')) as string;
  return list.match(/ name=butler-/g)?.length ?? 0;
}

/** The kinds of a prefix's keys, by the word behind the partition, with how many of each there are. */
export async function keyKinds(redis: Redis, prefix: string): Promise<Record<string, number>> {
  const kinds: Record<string, number> = {};
  for await (const keys of redis.scanStream({ match: `${prefix}*`, count: 1000 }) as AsyncIterable<string[]>) {
    for (const key of keys) {
      const kind = key.slice(key.indexOf('}') + 2).split(':')[0]!;
      kinds[kind] = (kinds[kind] ?? 0) + 1;
    }
  }
  return kinds;
}
