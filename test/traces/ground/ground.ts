import { randomUUID } from 'node:crypto';
import { KeyNames, PARTITIONS, partitionOf, type SessionKey } from '#protocol';
import {
  type Coordination,
  type Database,
  DATABASE_DEFAULTS,
  memoryCoordination,
  MemoryStore,
  migrate,
  openDatabase,
  openRedisCoordination,
  StepPoints,
  SystemClock,
  SystemRandomness,
} from '#platform';
import { SqlEventLedger } from '#event-ledger';
import { MemoryPartitionMarks, RedisPartitionMarks } from '#message-queue';
import { ALL_SCHEMAS, ManualClock, TestDatabase } from '#test-kit';
import { SqlTurns } from '#turn-lifecycle';
import type { Agent } from '#turn-runner';
import { behind, type Behind } from './behind.js';
import type { Points } from './points.js';
import { type PodOptions, TracePod } from './trace-pod.js';

export type GroundKind = 'real' | 'embedded';
export const GROUNDS: readonly GroundKind[] = ['real', 'embedded'];

/** Connections of one pod to MariaDB. */
const POOL = 6;

/** The two kinds of servers: how a pod comes by its own connections to them. */
interface Servers {
  prefix: string;
  /** A coordination of one pod's own. */
  coordination(): Promise<Coordination>;
  /** A pod's own database connections; pods of one name share them. */
  database(name: string): Promise<Database>;
  close(): Promise<void>;
}

/** The servers that all pods of a test share: Redis and MariaDB, or what stands for them inside a process. */
export class Ground {
  private readonly pods: TracePod[] = [];
  private readonly ears = new Map<TracePod, Ear>();
  private readonly coordinations = new Map<TracePod, Coordination>();
  private words = 0;
  private sessions = 0;

  private constructor(
    readonly kind: GroundKind,
    readonly keys: KeyNames,
    private readonly servers: Servers,
    /** An own connection, to look and to do things behind the pods' back. */
    private readonly aside: Coordination,
    readonly database: Database,
    private readonly agent: (points: Points) => Agent,
  ) {}

  readonly behind: Behind = behind(this.aside, this.keys);
  readonly ledger = new SqlEventLedger(this.database);
  readonly turns = new SqlTurns(this.database);

  /** @param agent what answers messages on every pod */
  static async open(kind: GroundKind, agent: (points: Points) => Agent): Promise<Ground> {
    const servers = kind === 'real' ? await realServers() : await embeddedServers();
    const keys = new KeyNames(servers.prefix);
    const aside = await servers.coordination();
    const ground = new Ground(kind, keys, servers, aside, await servers.database('aside'), agent);
    await ground.markIntact();
    return ground;
  }

  /** A session that nobody has used yet. */
  session(): SessionKey {
    return { account: 'acc', sessionId: `s${++this.sessions}` };
  }

  /** A session that nobody has used yet, in the partition of another one. */
  sessionBeside(session: SessionKey): SessionKey {
    for (let beside = this.session(); ; beside = this.session()) {
      if (partitionOf(beside) === partitionOf(session)) return beside;
    }
  }

  async pod(name: string, options: PodOptions = {}): Promise<TracePod> {
    const coordination = await this.servers.coordination();
    const database = await this.servers.database(name);
    const pod = new TracePod(name, { coordination, database, keys: this.keys, agent: this.agent }, options);
    const ear = new Ear();
    await coordination.channels.subscribe(this.wordChannel, (word) => ear.hear(Number(word)));
    this.ears.set(pod, ear);
    this.coordinations.set(pod, coordination);
    this.pods.push(pod);
    await pod.start();
    return pod;
  }

  /**
   * Resolves when every pod is asleep, held or dead, all calls have been answered and all that was said has been heard:
   * what happens then is up to the test.
   */
  async quiet(): Promise<void> {
    for (;;) {
      for (let calls = this.inFlight(); calls.length > 0; calls = this.inFlight()) {
        await Promise.race(calls);
        await turn();
      }
      const before = this.activity();
      await this.allHeard();
      await turn();
      await turn();
      if (this.inFlight().length === 0 && this.activity() === before) return;
    }
  }

  /** All living pods sweep once, and what follows from it comes to rest. */
  async sweep(...pods: TracePod[]): Promise<void> {
    const nowMs = await this.turns.nowMs();
    // The reconciler looks at what was queued before the present millisecond.
    while ((await this.turns.nowMs()) < nowMs + 2);
    for (const pod of pods) await this.settled(pod.sweep());
    await this.quiet();
  }

  /** Ends all pods of a test. */
  async clear(): Promise<void> {
    const pods = this.pods.splice(0);
    for (const pod of pods) await pod.stop();
    await Promise.all(pods.map((pod) => this.coordinations.get(pod)!.close()));
    this.coordinations.clear();
    this.ears.clear();
  }

  async close(): Promise<void> {
    await this.clear();
    await this.aside.close();
    await this.servers.close();
  }

  /** Waits for a part of the world; it may be held for good. */
  private async settled(part: Promise<unknown>): Promise<void> {
    await Promise.race([part, this.quiet()]);
  }

  private inFlight(): Promise<unknown>[] {
    return this.pods.flatMap(({ points }) => points.inFlight);
  }

  private activity(): number {
    return this.pods.reduce((sum, { points }) => sum + points.activity, 0);
  }

  /** A word to all on the same connections comes after all that was said before it. */
  private async allHeard(): Promise<void> {
    const word = ++this.words;
    const heard = this.pods.flatMap((pod) => (pod.notified ? [this.ears.get(pod)!.hears(word)] : []));
    if (heard.length === 0) return;
    await this.aside.channels.publish(this.wordChannel, String(word));
    await Promise.all(heard);
  }

  private get wordChannel(): string {
    return `${this.servers.prefix}words`;
  }

  private async markIntact(): Promise<void> {
    const { aside, keys } = this;
    const marks =
      aside.kind === 'redis' ? new RedisPartitionMarks(aside.redis, keys) : new MemoryPartitionMarks(aside.store, keys);
    const all = Array.from({ length: PARTITIONS }, (_, at) => at);
    await marks.finishFilling(await marks.beginFilling(all, 'ground'), 'ground');
  }
}

/** What can go on without a server has gone on. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** How far a pod has heard. */
class Ear {
  private heard = 0;
  private waiting: { word: number; go(): void }[] = [];

  hear(word: number): void {
    this.heard = word;
    for (const { go } of this.waiting.filter((each) => each.word <= word)) go();
    this.waiting = this.waiting.filter((each) => each.word > word);
  }

  hears(word: number): Promise<void> {
    if (this.heard >= word) return Promise.resolve();
    return new Promise((go) => this.waiting.push({ word, go }));
  }
}

async function realServers(): Promise<Servers> {
  const url = process.env['TEST_REDIS_URL'];
  if (!url) throw new Error('TEST_REDIS_URL names no Redis: run the tests with npm test, or start one and name it');
  const prefix = `traces-${randomUUID()}:`;
  const options = { url, prefix, startTimeoutMs: 5_000, onEviction: 'refuse', onWarning: () => undefined } as const;
  const test = await TestDatabase.create('mysql');
  const { database: first } = await test.openMigrated({ poolSize: POOL });
  const databases = new Map<string, Database>([['aside', first]]);
  return {
    prefix,
    coordination: () => openRedisCoordination(options, new SystemClock(), new SystemRandomness()),
    database: async (name) => {
      const known = databases.get(name) ?? (await test.open({ poolSize: POOL })).database;
      databases.set(name, known);
      return known;
    },
    close: () => test.drop(),
  };
}

async function embeddedServers(): Promise<Servers> {
  const clock = new ManualClock();
  const store = new MemoryStore(clock);
  const deps = { clock: new SystemClock(), randomness: new SystemRandomness(), steps: new StepPoints() };
  const options = { ...DATABASE_DEFAULTS, url: 'sqlite::memory:' };
  const open = await openDatabase(options, ALL_SCHEMAS, deps);
  await migrate(open, options);
  return {
    prefix: 'traces:',
    coordination: () => Promise.resolve(memoryCoordination('traces:', clock, store)),
    database: () => Promise.resolve(open.database),
    close: () => open.database.close(),
  };
}
