import { mkdirSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { createConnection } from 'mysql2/promise';
import { type BareRun, runBare } from './bare-script.js';
import { BenchPod } from './bench-pod.js';
import { median, short } from './figures.js';
import { HttpLoad, type LoadRun } from './http-load.js';
import { cpuMs, residentBytes } from './process-cpu.js';
import { ServerCounters } from './server-counters.js';

/**
 * `npm run bench`: Butler beside a bare script, on the same servers, in turns: medians of ROUNDS and their ratios. Times
 * of one machine mean little; the ratios are what is compared.
 */
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const PODS = Number(process.env.BENCH_PODS ?? 1);
const SESSIONS = 200;
const MESSAGES = Number(process.env.BENCH_MESSAGES ?? 50);
const CLIENTS = 64;
const BARE_CONNECTIONS = [8, 16, 32];
const LATENCY_SESSIONS = 100;
const IDLE_SESSIONS = Number(process.env.BENCH_IDLE ?? 10_000);
const IDLE_LOOK_S = 30;
/** How long the pods are left alone before they count as at rest: what the load has left behind is cleared away. */
const SETTLE_MS = 5_000;
const PREFIX = 'bench:';

interface Line {
  what: string;
  butler: number;
  bare?: number;
  unit: string;
}

const servers = { redis: process.env.TEST_REDIS_URL!, root: process.env.TEST_DATABASE_URL! };
const urls = { redis: servers.redis, database: new URL('/bench', servers.root).href };

async function main(): Promise<void> {
  const root = await createConnection(servers.root);
  await root.query('DROP DATABASE IF EXISTS bench');
  await root.query('CREATE DATABASE bench CHARACTER SET utf8mb4');
  const env = {
    REDIS_URL: urls.redis,
    DATABASE_URL: urls.database,
    REDIS_KEY_PREFIX: PREFIX,
    ACTOR_IDLE_MS: '3600000',
  };
  const pods = await Promise.all(Array.from({ length: PODS }, (_, at) => BenchPod.start(`bench-${at}`, env)));
  const load = await HttpLoad.open(
    pods.map(({ url }) => url),
    urls.redis,
    PREFIX,
  );
  const counters = await ServerCounters.open(urls);
  try {
    const lines = [
      ...(await throughput(pods, load, counters)),
      ...(await latency(load)),
      ...(await idle(pods, load, counters)),
    ];
    report(lines);
  } finally {
    load.close();
    await counters.close();
    await Promise.all(pods.map((pod) => pod.stop()));
    await root.query('DROP DATABASE bench');
    await root.end();
  }
}

async function throughput(pods: BenchPod[], load: HttpLoad, counters: ServerCounters): Promise<Line[]> {
  await load.run(names('warm'), 5, CLIENTS);
  const butler: LoadRun[] = [];
  const bare: BareRun[] = [];
  const cpu: number[] = [];
  const before = await counters.read();
  const count = { redisCalls: 0, sqlStatements: 0, commits: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    const [cpuBefore, from] = [podCpu(pods), await counters.read()];
    butler.push(await load.run(names(`load${round}`), MESSAGES, CLIENTS));
    cpu.push((podCpu(pods) - cpuBefore) / (SESSIONS * MESSAGES));
    const to = await counters.read();
    for (const name of ['redisCalls', 'sqlStatements', 'commits'] as const) count[name] += to[name] - from[name];
    bare.push(await bestBare());
    say(
      `round ${round + 1}: ${short(butler.at(-1)!.messagesPerS)} msg/s, bare ${short(bare.at(-1)!.messagesPerS)} msg/s`,
    );
  }
  const turns = ROUNDS * SESSIONS * MESSAGES;
  return [
    {
      what: 'messages end to end',
      butler: medianOf(butler, 'messagesPerS'),
      bare: medianOf(bare, 'messagesPerS'),
      unit: 'per s',
    },
    { what: 'CPU of the pods per turn', butler: median(cpu), unit: 'ms' },
    { what: 'Redis scripts per turn', butler: count.redisCalls / turns, unit: '' },
    { what: 'SQL statements per turn', butler: count.sqlStatements / turns, unit: '' },
    { what: 'commits per turn', butler: count.commits / turns, bare: 2, unit: '' },
    { what: 'Redis connections of a pod', butler: (before.redisConnections - 2) / pods.length, unit: '' },
  ];
}

/** One message at a time: what a user waits for when nobody else is there. */
async function latency(load: HttpLoad): Promise<Line[]> {
  type Starts = Pick<LoadRun, 'startMs'>;
  const rounds = { fresh: [] as Starts[], known: [] as Starts[], bare: [] as Starts[] };
  for (let round = 0; round < ROUNDS; round++) {
    const sessions = names(`alone${round}`, LATENCY_SESSIONS);
    rounds.fresh.push(await load.runAlone(sessions));
    rounds.known.push(await load.runAlone(sessions));
    rounds.bare.push(await runBare(urls, { sessions: LATENCY_SESSIONS, messages: 1, connections: 1 }));
  }
  const of = (runs: Starts[], which: 'p50' | 'p99'): number => median(runs.map(({ startMs }) => startMs[which]));
  return (['fresh', 'known'] as const).flatMap((kind) =>
    (['p50', 'p99'] as const).map((which) => ({
      what: `POST to turn.started, ${kind === 'fresh' ? 'new' : 'known idle'} session, ${which}`,
      butler: of(rounds[kind], which),
      bare: of(rounds.bare, which),
      unit: 'ms',
    })),
  );
}

async function idle(pods: BenchPod[], load: HttpLoad, counters: ServerCounters): Promise<Line[]> {
  const restPercent = await cpuAtRest(pods);
  const before = { bytes: podBytes(pods), connections: (await counters.read()).redisConnections };
  await load.run(names('idle', IDLE_SESSIONS), 1, CLIENTS);
  const after = await counters.read();
  const bytes = (podBytes(pods) - before.bytes) / IDLE_SESSIONS;
  const percent = await cpuAtRest(pods);
  return [
    { what: `resident memory per idle session (${IDLE_SESSIONS})`, butler: bytes, unit: 'bytes' },
    {
      what: `connections per idle session`,
      butler: (after.redisConnections - before.connections) / IDLE_SESSIONS,
      unit: '',
    },
    { what: 'CPU of the pods before', butler: restPercent, unit: '% of a core' },
    { what: `CPU of the pods with ${IDLE_SESSIONS} idle sessions more`, butler: percent, unit: '% of a core' },
  ];
}

/** In % of a core. */
async function cpuAtRest(pods: BenchPod[]): Promise<number> {
  await sleep(SETTLE_MS);
  const from = podCpu(pods);
  await sleep(IDLE_LOOK_S * 1000);
  return (podCpu(pods) - from) / (IDLE_LOOK_S * 10);
}

async function bestBare(): Promise<BareRun> {
  const runs: BareRun[] = [];
  for (const connections of BARE_CONNECTIONS)
    runs.push(await runBare(urls, { sessions: SESSIONS, messages: MESSAGES, connections }));
  return runs.reduce((a, b) => (b.messagesPerS > a.messagesPerS ? b : a));
}

function report(lines: Line[]): void {
  const rows = lines.map(({ what, butler, bare, unit }) => ({
    what: unit ? `${what}, ${unit}` : what,
    butler: short(butler),
    bare: bare === undefined ? '' : short(bare),
    ratio: bare === undefined ? '' : (butler / bare).toFixed(2),
  }));
  const wide = Math.max(...rows.map(({ what }) => what.length));
  say(`\n${'median of rounds'.padEnd(wide)}  ${'butler'.padStart(8)}  ${'bare'.padStart(8)}  butler/bare`);
  for (const row of rows)
    say(`${row.what.padEnd(wide)}  ${row.butler.padStart(8)}  ${row.bare.padStart(8)}  ${row.ratio}`);
  mkdirSync('bench-results', { recursive: true });
  writeFileSync('bench-results/latest.json', `${JSON.stringify({ rounds: ROUNDS, pods: PODS, lines }, null, 2)}\n`);
}

function names(round: string, count = SESSIONS): string[] {
  return Array.from({ length: count }, (_, at) => `${round}-${at}`);
}

function medianOf<K extends string>(runs: readonly Record<K, number>[], name: K): number {
  return median(runs.map((run) => run[name]));
}

function podCpu(pods: BenchPod[]): number {
  return pods.reduce((sum, { pid }) => sum + cpuMs(pid), 0);
}

function podBytes(pods: BenchPod[]): number {
  return pods.reduce((sum, { pid }) => sum + residentBytes(pid), 0);
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

await main();
process.exit(0);
