import type { SessionKey } from '#protocol';
import { MemoryStore, type Database, UnavailableError } from '#platform';
import { SqlEventLedger } from '#event-ledger';
import { Invariants } from './invariants.js';
import { SeededRandom } from './seeded-random.js';
import { SETTINGS, type Servers, SimulatedPod } from './simulated-pod.js';
import { PodClock, World } from './world.js';

/** How many pods, sessions and messages one schedule has, and what befalls it. */
export interface Faults {
  crashes: number;
  freezes: number;
}

interface Post {
  session: SessionKey;
  turnId: string;
  /** A client whose pod died posts again, or gives up. */
  state: 'unsent' | 'sent' | 'accepted' | 'given up';
  pod: string | null;
}

export interface ScheduleReport {
  seed: number;
  steps: number;
  posts: number;
  crashes: number;
  freezes: number;
}

const PODS = 3;
const SESSIONS = 3;
const MESSAGES = 6;
/** A schedule that is not done by then has come to no end. */
const STEPS_MAX = 50_000;

/** One run of three pods over one ledger and one coordination store, all its choices made by the seed. */
export class Schedule {
  private readonly random: SeededRandom;
  readonly world: World;
  private readonly servers: Servers;
  private readonly pods = new Map<string, SimulatedPod>();
  private readonly posts: Post[] = [];
  private readonly invariants: Invariants;
  private failure: Error | null = null;
  private boots = 0;
  private crashes: number;
  private freezes: number;
  private readonly done = { crashes: 0, freezes: 0 };

  constructor(
    private readonly seed: number,
    database: Database,
    faults: Faults,
  ) {
    this.random = new SeededRandom(seed);
    this.world = new World(this.random);
    this.crashes = faults.crashes;
    this.freezes = faults.freezes;
    const account = `acc-${seed}`;
    const sessions = Array.from({ length: SESSIONS }, (_, at) => ({ account, sessionId: `ses-${at}` }));
    this.invariants = new Invariants(new SqlEventLedger(database), sessions);
    const store = new MemoryStore(new PodClock(this.world, 'store'));
    const begin = this.invariants.beginStep.bind(this.invariants);
    this.servers = { world: this.world, database, store, observer: { begin: (run) => this.observe(() => begin(run)) } };
    for (let at = 0; at < MESSAGES; at++) {
      this.posts.push({ session: this.random.pick(sessions), turnId: `${account}-t${at}`, state: 'unsent', pod: null });
    }
  }

  /** @throws Error with the seed and the trace at the first promise that does not hold */
  async run(): Promise<ScheduleReport> {
    try {
      while (this.pods.size < PODS) this.boot();
      let steps = 0;
      for (; !this.isOver(); steps++) {
        if (steps > STEPS_MAX) throw new Error(`I3: no end after ${STEPS_MAX} steps; ${JSON.stringify(this.posts)}`);
        this.mayInterfere();
        await this.world.step();
        await this.invariants.check();
        if (this.failure) throw this.failure;
      }
      return { seed: this.seed, steps, posts: this.posts.length, ...this.done };
    } catch (error) {
      const tail = this.world.trace.slice(-60).join('\n');
      throw new Error(`seed ${this.seed}: ${(error as Error).message}\n${tail}`, { cause: error });
    }
  }

  private isOver(): boolean {
    const { invariants } = this;
    return (
      invariants.allEnded &&
      this.posts.every(
        ({ state, turnId }) => state === 'given up' || (state === 'accepted' && invariants.hasAccepted(turnId)),
      )
    );
  }

  /** Now and then a client posts, a pod dies and another comes, a pod freezes for longer than its lease. */
  private mayInterfere(): void {
    const waiting = this.posts.filter((post) => post.state === 'unsent');
    if (waiting.length > 0 && this.random.chance(0.05)) this.post(this.random.pick(waiting));
    if (this.crashes > 0 && this.random.chance(0.01)) this.crash(this.random.pick([...this.pods.keys()]));
    if (this.freezes > 0 && this.random.chance(0.01)) this.freeze(this.random.pick([...this.pods.keys()]));
    for (const name of this.pods.keys()) {
      if (this.world.isFrozen(name) && this.random.chance(0.005)) this.world.thaw(name);
    }
  }

  private post(post: Post): void {
    const [name, pod] = this.random.pick([...this.pods]);
    post.state = 'sent';
    post.pod = name;
    const message = { ...post.session, turnId: post.turnId, initiator: 'ann', content: 'go', metadata: null };
    pod.intake.postMessage({ ...message, mode: 'enqueue' }).then(
      () => {
        post.state = 'accepted';
      },
      (error: unknown) => {
        if (error instanceof UnavailableError) post.state = 'unsent';
        else this.failure = error as Error;
      },
    );
  }

  private crash(name: string): void {
    this.crashes--;
    this.done.crashes++;
    this.world.kill(name);
    this.pods.delete(name);
    for (const post of this.posts) {
      if (post.pod === name && post.state === 'sent') post.state = this.random.chance(0.5) ? 'unsent' : 'given up';
    }
    this.boot();
  }

  private freeze(name: string): void {
    if (this.world.isFrozen(name)) return;
    this.freezes--;
    this.done.freezes++;
    this.world.freeze(name);
    if (this.random.chance(0.7)) this.world.pass(SETTINGS.leaseTtlMs * (0.5 + this.random.fraction()));
  }

  private boot(): void {
    const name = `p${++this.boots}`;
    const pod = new SimulatedPod(this.servers, name);
    this.pods.set(name, pod);
    pod.start();
  }

  private observe(look: () => void): void {
    try {
      look();
    } catch (error) {
      this.failure ??= error as Error;
    }
  }
}
