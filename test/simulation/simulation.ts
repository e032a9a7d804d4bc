import type { Content, ModelMessage, SessionKey } from '#protocol';
import { type Database, MemoryStore } from '#platform';
import { SqlEventLedger } from '#event-ledger';
import { Invariants, type StepRun } from './invariants.js';
import { SeededRandom } from './seeded-random.js';
import { SETTINGS, type Servers, SimulatedPod } from './simulated-pod.js';
import { PodClock, World } from './world.js';

/** What befalls the pods of one run. */
export interface Faults {
  crashes: number;
  freezes: number;
}

interface Shape {
  sessions: readonly SessionKey[];
  faults: Faults;
  /** Whether every model step reads its input. */
  readsInput?: boolean;
}

const PODS = 3;
/** A run that is not done by then has come to no end. */
const STEPS_MAX = 50_000;

/** One run of three pods over one ledger and one coordination store, all its choices made by the seed. */
export abstract class Simulation {
  readonly world: World;
  protected readonly random: SeededRandom;
  protected readonly sessions: readonly SessionKey[];
  protected readonly pods = new Map<string, SimulatedPod>();
  protected readonly invariants: Invariants;
  protected readonly befell: Faults = { crashes: 0, freezes: 0 };
  private readonly servers: Servers;
  private readonly faults: Faults;
  private failure: Error | null = null;
  private boots = 0;

  constructor(
    protected readonly seed: number,
    database: Database,
    { sessions, faults, readsInput = false }: Shape,
  ) {
    this.random = new SeededRandom(seed);
    this.world = new World(this.random);
    this.sessions = sessions;
    this.faults = { ...faults };
    this.invariants = new Invariants(new SqlEventLedger(database), sessions);
    const store = new MemoryStore(new PodClock(this.world, 'store'));
    const { invariants } = this;
    const begin = (run: StepRun): void => this.observe(() => invariants.beginStep(run));
    const read = (run: StepRun, input: readonly ModelMessage[], content: Content): void =>
      this.observe(() => invariants.readInput(run, input, content));
    this.servers = { world: this.world, database, store, observer: { begin, ...(readsInput && { read }) } };
  }

  /** Whether all that was to happen has happened. */
  protected abstract isOver(): boolean;

  /** Now and then somebody outside does something. */
  protected abstract mayInterfere(): void;

  /** What was asked of the pod, nobody will answer. */
  protected abstract onCrash(name: string): void;

  /**
   * How many steps it took.
   * @throws Error with the seed and the trace at the first promise that does not hold
   */
  protected async play(): Promise<number> {
    try {
      while (this.pods.size < PODS) this.boot();
      let steps = 0;
      for (; !this.isOver(); steps++) {
        if (steps > STEPS_MAX) throw new Error(`I3: no end after ${STEPS_MAX} steps`);
        this.mayInterfere();
        this.mayBreak();
        await this.world.step();
        await this.invariants.check();
        if (this.failure) throw this.failure;
      }
      return steps;
    } catch (error) {
      const tail = this.world.trace.slice(-60).join('\n');
      throw new Error(`seed ${this.seed}: ${(error as Error).message}\n${tail}`, { cause: error });
    }
  }

  protected fail(error: Error): void {
    this.failure ??= error;
  }

  /** Now and then a pod dies and another comes, or a pod freezes for longer than its lease. */
  private mayBreak(): void {
    const { faults, random } = this;
    if (faults.crashes > 0 && random.chance(0.01)) this.crash(random.pick([...this.pods.keys()]));
    if (faults.freezes > 0 && random.chance(0.01)) this.freeze(random.pick([...this.pods.keys()]));
    for (const name of this.pods.keys()) {
      if (this.world.isFrozen(name) && random.chance(0.005)) this.world.thaw(name);
    }
  }

  private crash(name: string): void {
    this.faults.crashes--;
    this.befell.crashes++;
    this.world.kill(name);
    this.pods.delete(name);
    this.onCrash(name);
    this.boot();
  }

  private freeze(name: string): void {
    if (this.world.isFrozen(name)) return;
    this.faults.freezes--;
    this.befell.freezes++;
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
      this.fail(error as Error);
    }
  }
}
