import { Redis } from 'ioredis';
import { createConnection } from 'mysql2/promise';
import { percentiles } from './figures.js';

const UNLOCKED =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('LREM', KEYS[2], 1, ARGV[2]) end return 0";

export interface BareRun {
  messagesPerS: number;
  /** From the beginning of a message to the moment at which its work could start, ms. */
  startMs: { p50: number; p99: number };
  connections: number;
}

/**
 * What a message costs at the very least, without Butler: an INSERT that commits, RPUSH and PUBLISH, a SET NX lock, an
 * LMOVE, one commit of the end, a token-checked LREM. No HTTP, no framework; same servers, same durability.
 */
export async function runBare(
  urls: { redis: string; database: string },
  load: { sessions: number; messages: number; connections: number },
): Promise<BareRun> {
  const redis = new Redis(urls.redis, { keyPrefix: `bare:${process.hrtime.bigint()}:` });
  const connections = await Promise.all(
    Array.from({ length: load.connections }, () => createConnection(urls.database)),
  );
  await connections[0]!.query(
    'CREATE TABLE IF NOT EXISTS bare (id BIGINT AUTO_INCREMENT PRIMARY KEY, session VARCHAR(64), body TEXT, done TINYINT DEFAULT 0)',
  );
  const started: number[] = [];
  const begin = performance.now();
  await Promise.all(
    connections.map(async (connection, at) => {
      for (let message = 0; message < load.messages; message++) {
        for (let session = at; session < load.sessions; session += load.connections) {
          const posted = performance.now();
          const [{ insertId }] = (await connection.execute('INSERT INTO bare (session, body) VALUES (?, ?)', [
            `s${session}`,
            'hello',
          ])) as unknown as [{ insertId: number }];
          await Promise.all([redis.rpush(`pending:${session}`, insertId), redis.publish('wake', `s${session}`)]);
          await redis.set(`lock:${session}`, 'token', 'PX', 30_000, 'NX');
          const taken = await redis.lmove(`pending:${session}`, `processing:${session}`, 'LEFT', 'RIGHT');
          started.push(performance.now() - posted);
          await connection.execute('UPDATE bare SET done = 1 WHERE id = ?', [taken]);
          await redis.eval(UNLOCKED, 2, `lock:${session}`, `processing:${session}`, 'token', taken!);
        }
      }
    }),
  );
  const seconds = (performance.now() - begin) / 1000;
  await connections[0]!.query('TRUNCATE bare');
  await Promise.all(connections.map((connection) => connection.end()));
  await redis.quit();
  const messagesPerS = (load.sessions * load.messages) / seconds;
  return { messagesPerS, startMs: percentiles(started), connections: load.connections };
}
