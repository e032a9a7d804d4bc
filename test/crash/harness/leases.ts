import { type Id, parseOwnerToken } from '#protocol';
import type { ServersPlace } from '../../e2e/harness/places.js';

/** The sessions whose lease a pod has in Redis now. */
export async function leasesOf({ redis, keyPrefix }: ServersPlace, podId: Id): Promise<Id[]> {
  const keys = await redis.keys(`${keyPrefix}{*}:lock:*`);
  if (keys.length === 0) return [];
  const tokens = await redis.mget(keys);
  return keys.flatMap((key, at) => {
    const token = tokens[at];
    return token && parseOwnerToken(token).podId === podId ? [key.slice(key.lastIndexOf(':') + 1)] : [];
  });
}
