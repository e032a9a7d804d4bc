import { mkdirSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { type Connection, createConnection } from 'mysql2/promise';
import { PARTITIONS } from '#protocol';
import { BenchPod } from './bench-pod.js';
import { median, short } from './figures.js';
import { residentBytes } from './process-cpu.js';
import { liveTurns, queueTurns } from './queued-turns.js';

/**
 * `npm run bench -- refill`: how long until every waiting line is again as the ledger says after Redis has lost
 * everything, and what that takes of the pod's memory; beside it a bare script that reads the same rows and pushes them.
 */
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const TURNS = Number(process.env.BENCH_TURNS ?? 100_000);
const SESSIONS = Number(process.env.BENCH_SESSIONS ?? 2_000);
/** One turn runs, for an hour; all others stay in line. */
const ROOM = 1;
const PREFIX = 'bench:';
const LOOK_EVERY_MS = 20;
const LIMIT_MS = 120_000;
/** What a round has left behind is cleared away before the next one. */
const SETTLE_MS = 6_000;

const urls = { redis: process.env.TEST_REDIS_URL!, database: new URL('/bench', process.env.TEST_DATABASE_URL!).href };

interface Round {
  /** From FLUSHALL until somebody marks what was lost. */
  noticedS: number;
  /** From FLUSHALL until everything is intact. */
  intactS: number;
  bytesBefore: number;
  bytesMost: number;
  bytesAfter: number;
  bareS: number;
}

async function main(): Promise<void> {
  const root = await createConnection(process.env.TEST_DATABASE_URL!);
  await root.query('DROP DATABASE IF EXISTS bench');
  await root.query('CREATE DATABASE bench CHARACTER SET utf8mb4');
  const env = { REDIS_URL: urls.redis, DATABASE_URL: urls.database, REDIS_KEY_PREFIX: PREFIX };
  // The first one makes the tables; the next one finds the turns and fills an empty Redis before it listens.
  const first = await BenchPod.start('first', env);
  const bytesAtFirst = residentBytes(first.pid);
  await first.stop();
  const [redis, sql] = [new Redis(urls.redis), await createConnection(urls.database)];
  await queueTurns(sql, SESSIONS, Math.floor(TURNS / SESSIONS));
  await redis.flushall();
  const pod = await BenchPod.start('refill', { ...env, ACTOR_MAX_ACTIVE: String(ROOM), LOG_LEVEL: 'warn' });
  say(`${TURNS} turns in ${SESSIONS} sessions wait`);
  try {
    const rounds: Round[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      await sleep(SETTLE_MS);
      const lost = await lose(redis, pod);
      await assertRestored(redis, sql);
      rounds.push({ ...lost, bareS: await bare(redis, sql) });
      const { intactS, bareS } = rounds.at(-1)!;
      say(`round ${round + 1}: ${short(intactS)} s, bare ${short(bareS)} s`);
    }
    report(rounds, bytesAtFirst);
  } finally {
    redis.disconnect();
    await sql.end();
    await pod.stop();
    await root.query('DROP DATABASE bench');
    await root.end();
  }
}

async function lose(redis: Redis, pod: BenchPod): Promise<Omit<Round, 'bareS'>> {
  const bytesBefore = residentBytes(pod.pid);
  let [bytesMost, noticedS] = [bytesBefore, 0];
  await redis.flushall();
  const sinceMs = performance.now();
  const passedS = (): number => (performance.now() - sinceMs) / 1000;
  for (;;) {
    await sleep(LOOK_EVERY_MS);
    bytesMost = Math.max(bytesMost, residentBytes(pod.pid));
    const marks = await redis.mget(Array.from({ length: PARTITIONS }, (_, at) => partitionKey(at, 'intact')));
    if (noticedS === 0 && marks.some((mark) => mark !== null)) noticedS = passedS();
    if (marks.every((mark) => mark === 'yes')) break;
    if (passedS() > LIMIT_MS / 1000) throw new Error(`not intact after ${LIMIT_MS} ms`);
  }
  return { noticedS, intactS: passedS(), bytesBefore, bytesMost, bytesAfter: residentBytes(pod.pid) };
}

/** Every line holds what the ledger says, in its order; the turn that runs may stand in either list. */
async function assertRestored(redis: Redis, sql: Connection): Promise<void> {
  const lines = new Map<string, string[]>();
  for await (const page of liveTurns(sql)) {
    for (const { session, envelope } of page) lines.set(session, [...(lines.get(session) ?? []), envelope]);
  }
  const pendingKeys = await redis.keys(`${PREFIX}{*}:pending:*`);
  const found = new Map<string, string[]>();
  for (const key of pendingKeys) {
    const processing = await redis.lrange(key.replace(':pending:', ':processing:'), 0, -1);
    found.set(key.split(':pending:')[1]!, [...processing, ...(await redis.lrange(key, 0, -1))]);
  }
  for (const [session, line] of lines) {
    if (JSON.stringify(found.get(session)) !== JSON.stringify(line)) throw new Error(`${session} is not restored`);
  }
}

/** The least that it could take: reads the same rows, a partition at a time, and pushes each session's in one pipeline. */
async function bare(redis: Redis, sql: Connection): Promise<number> {
  const sinceMs = performance.now();
  for await (const rows of liveTurns(sql)) {
    const pipeline = redis.pipeline();
    for (const [session, line] of Map.groupBy(rows, (row) => row.session)) {
      pipeline.rpush(`bare:${session}`, ...line.map(({ envelope }) => envelope));
    }
    await pipeline.exec();
  }
  const seconds = (performance.now() - sinceMs) / 1000;
  for (const key of await redis.keys('bare:*')) await redis.del(key);
  return seconds;
}

function report(rounds: readonly Round[], bytesAtFirst: number): void {
  const of = (value: (round: Round) => number): number => median(rounds.map(value));
  const mib = (bytes: number): number => bytes / 1024 ** 2;
  const lines = [
    { what: 'FLUSHALL until it is noticed, s', value: of((round) => round.noticedS) },
    { what: 'FLUSHALL until every line is restored, s', value: of((round) => round.intactS) },
    { what: 'the same, longest', value: Math.max(...rounds.map(({ intactS }) => intactS)) },
    { what: 'from notice to the end, s', value: of(({ intactS, noticedS }) => intactS - noticedS) },
    { what: 'bare script, s', value: of(({ bareS }) => bareS) },
    { what: 'resident memory of the pod with no turn at all, MiB', value: mib(bytesAtFirst) },
    { what: 'before FLUSHALL, MiB', value: of(({ bytesBefore }) => mib(bytesBefore)) },
    { what: 'the most meanwhile, MiB', value: of(({ bytesMost }) => mib(bytesMost)) },
    { what: 'afterwards, MiB', value: of(({ bytesAfter }) => mib(bytesAfter)) },
  ];
  const wide = Math.max(...lines.map(({ what }) => what.length));
  say(`\nmedian of ${ROUNDS} rounds`);
  for (const { what, value } of lines) say(`${what.padEnd(wide)}  ${short(value).padStart(8)}`);
  mkdirSync('bench-results', { recursive: true });
  const result = { rounds: ROUNDS, turns: TURNS, sessions: SESSIONS, lines };
  writeFileSync('bench-results/refill.json', `${JSON.stringify(result, null, 2)}\n`);
}

function partitionKey(partition: number, name: string): string {
  return `${PREFIX}{${String(partition).padStart(3, '0')}}:${name}`;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

await main();
process.exit(0);
