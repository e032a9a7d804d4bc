import { accessSync, constants, lstatSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

/** What key and channel names can hold: the same rule as for ids of callers. */
const POD_ID = /^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,128}$/;

/** Each check answers what to do about a faulty value, or null. */
export function checkDatabaseUrl(url: string): string | null {
  if (/^sqlite:.+/.test(url)) return null;
  if (!url.startsWith('mysql://')) return 'use mysql://user:password@host:port/name or sqlite:<path>';
  const parsed = URL.parse(url);
  if (!parsed?.hostname) return 'use mysql://user:password@host:port/name';
  return parsed.pathname.length > 1 ? null : 'name the database at the end: mysql://user:password@host:port/name';
}

export function checkRedisUrl(url: string): string | null {
  if (/^redis\+(cluster|sentinel):/.test(url)) {
    return 'Cluster and Sentinel are not available yet: name one server, redis://host:port';
  }
  return /^rediss?:\/\//.test(url) && URL.parse(url)?.hostname ? null : 'use redis://host:port or rediss://host:port';
}

export function checkPodId(podId: string): string | null {
  return POD_ID.test(podId) ? null : 'use 1 to 128 characters of A-Z a-z 0-9 . _ ~ - and not "." or ".."';
}

export function checkModelUrl(): string {
  return 'the model agent is not available yet: leave it unset and use AGENT=local';
}

/** Only 0, off, is there in this version. */
export function checkOff(value: number): string | null {
  return value === 0 ? null : 'not available yet: set 0 or leave it unset';
}

/** Whether a path is a folder that can be written to, or can become one. Makes nothing. */
export function checkFolder(path: string): string | null {
  const wanted = resolve(path);
  try {
    let nearest = wanted;
    while (!isThere(nearest)) nearest = dirname(nearest);
    if (!statSync(nearest, { throwIfNoEntry: false })?.isDirectory()) {
      return nearest === wanted ? 'is not a folder' : `cannot be made: ${nearest} is not a folder`;
    }
    accessSync(nearest, constants.W_OK | constants.X_OK);
    return null;
  } catch (error) {
    return `cannot be written to: ${(error as Error).message}`;
  }
}

/** A link that leads nowhere is there, too: nothing can be made in its place. */
function isThere(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

/** A POD_ID made of the host name: what does not fit becomes `-`. */
export function podIdOf(hostName: string): string {
  const fitting = hostName.replace(/[^A-Za-z0-9._~-]/g, '-').slice(0, 128);
  return POD_ID.test(fitting) ? fitting : 'pod';
}
