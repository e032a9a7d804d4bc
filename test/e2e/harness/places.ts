// Where a stage's pods keep their data: a database and a key prefix of its own on the real servers, or a SQLite file.
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { Redis } from 'ioredis';
import { createConnection } from 'mysql2/promise';

/** How many rows each table of the runtime has. */
export type RowCounts = Record<'session' | 'turn' | 'event', number>;

export interface Place {
  /** The settings that lead a pod here. */
  settings: Record<string, string>;
  rows(): Promise<RowCounts>;
  close(): Promise<void>;
}

export interface ServersPlace extends Place {
  redis: Redis;
  keyPrefix: string;
  /** Asks the ledger's database. */
  query<R>(statement: string): Promise<R[]>;
}

const COUNTS = `SELECT (SELECT COUNT(*) FROM session) AS session,
  (SELECT COUNT(*) FROM turn) AS turn, (SELECT COUNT(*) FROM event) AS event`;

/** Servers of the test's own, instead of the shared ones: what it does to them hurts nobody else. */
export interface GivenServers {
  redisUrl?: string;
  databaseUrl?: string;
}

export async function openServers(given: GivenServers = {}): Promise<ServersPlace> {
  const redisUrl = given.redisUrl ?? named('TEST_REDIS_URL');
  const name = `e2e_${randomBytes(6).toString('hex')}`;
  const keyPrefix = `${name}:`;
  const server = given.databaseUrl ?? named('TEST_DATABASE_URL');
  const database = new URL(server);
  database.pathname = `/${name}`;
  await ask(server, `CREATE DATABASE ${name}`);
  const redis = new Redis(redisUrl, { lazyConnect: true, maxRetriesPerRequest: 1, retryStrategy: () => null });
  // Redis may be away on purpose: whoever asks it then hears so from the call.
  redis.on('error', () => undefined);
  await redis.connect();
  return {
    settings: { REDIS_URL: redisUrl, DATABASE_URL: database.href, REDIS_KEY_PREFIX: keyPrefix },
    redis,
    keyPrefix,
    query: (statement) => ask(database.href, statement),
    rows: async () => (await ask<RowCounts>(database.href, COUNTS))[0]!,
    close: async () => {
      if (!given.redisUrl) await removeKeys(redis, keyPrefix);
      // Where it has ended by itself, to end it again would only keep a timer.
      if (redis.status !== 'end') redis.disconnect();
      if (!given.databaseUrl) await ask(server, `DROP DATABASE ${name}`);
    },
  };
}

async function ask<R>(url: string, statement: string): Promise<R[]> {
  const connection = await createConnection({ uri: url });
  try {
    const [rows] = await connection.query(statement);
    return rows as R[];
  } finally {
    await connection.end();
  }
}

/** One pod by itself, on a SQLite file in `dir`. Its rows can be counted while no pod runs. */
export function openFile(dir: string): Place {
  const file = join(dir, 'ledger.sqlite');
  return {
    settings: { DATABASE_URL: `sqlite:${file}` },
    rows: () => {
      const sqlite = new Sqlite(file, { readonly: true });
      try {
        return Promise.resolve(sqlite.prepare(COUNTS).get() as RowCounts);
      } finally {
        sqlite.close();
      }
    },
    close: () => Promise.resolve(),
  };
}

function named(variable: string): string {
  const value = process.env[variable];
  if (!value) throw new Error(`${variable} is not set: run the tests with npm test, or name running servers`);
  return value;
}

async function removeKeys(redis: Redis, prefix: string): Promise<void> {
  for await (const keys of redis.scanStream({ match: `${prefix}*`, count: 500 }) as AsyncIterable<string[]>) {
    if (keys.length > 0) await redis.unlink(...keys);
  }
}
