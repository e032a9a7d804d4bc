import { Clock, type Timer } from '#platform';
import { SeededRandom } from './seeded-random.js';

/** Something that will happen at a moment of simulated time. */
interface Due {
  atMs: number;
  order: number;
  /** Whose it is: a process, or `world` for what befalls them and `wire` for what is on its way to a server. */
  whose: string;
  label: string;
  run(): void;
}

/** One thing that happened. */
export interface Happening {
  atMs: number;
  whose: string;
  label: string;
}

const BEGIN_MS = 1_000_000;

/**
 * Everything in a simulation that can happen next, in the order of simulated time: calls that travel, timers, what befalls
 * the processes. Between two of them no time passes. A frozen process does nothing until it thaws, and then everything at
 * once; a dead one nothing ever again.
 */
export class World {
  nowMs = BEGIN_MS;
  /** What happened. */
  readonly trace: Happening[] = [];
  /** The first thing that went wrong. */
  failure: Error | null = null;
  private readonly heap: Due[] = [];
  private order = 0;
  private readonly dead = new Set<string>();
  private readonly frozen = new Map<string, Due[]>();

  constructor(readonly random: SeededRandom) {}

  /** Ms since the beginning. */
  get elapsedMs(): number {
    return this.nowMs - BEGIN_MS;
  }

  /** Calls `run` after `ms`, unless `whose` process is dead by then. */
  after(whose: string, ms: number, label: string, run: () => void): Timer {
    const due: Due = { atMs: this.nowMs + ms, order: this.order++, whose, label, run };
    if (!this.dead.has(whose)) this.push(due);
    return {
      cancel: () => {
        due.run = nothing;
      },
    };
  }

  /** Resolves after `ms`; never when the process dies before. */
  wait(whose: string, ms: number, label: string): Promise<void> {
    return new Promise((resolve) => this.after(whose, ms, label, resolve));
  }

  note(whose: string, label: string): void {
    this.trace.push({ atMs: this.elapsedMs, whose, label });
  }

  fail(error: unknown): void {
    this.failure ??= error as Error;
  }

  kill(whose: string): void {
    this.note(whose, 'dies');
    this.dead.add(whose);
    this.frozen.delete(whose);
  }

  freeze(whose: string): void {
    this.note(whose, 'freezes');
    this.frozen.set(whose, []);
  }

  thaw(whose: string): void {
    const stood = this.frozen.get(whose);
    if (!stood) return;
    this.note(whose, 'thaws');
    this.frozen.delete(whose);
    for (const due of stood) this.push({ ...due, atMs: this.nowMs, run: () => due.run() });
  }

  isFrozen(whose: string): boolean {
    return this.frozen.has(whose);
  }

  isDead(whose: string): boolean {
    return this.dead.has(whose);
  }

  /** Makes the next thing happen and lets its consequences run until everybody waits again. */
  async step(): Promise<void> {
    const due = this.pop();
    if (!due) throw new Error('nothing can happen any more');
    this.nowMs = Math.max(this.nowMs, due.atMs);
    if (due.run === nothing || this.dead.has(due.whose)) return;
    const stash = this.frozen.get(due.whose);
    if (stash) return void stash.push(due);
    this.note(due.whose, due.label);
    due.run();
    await settled();
  }

  private push(due: Due): void {
    const { heap } = this;
    let at = heap.push(due) - 1;
    for (let up = (at - 1) >> 1; at > 0 && isBefore(due, heap[up]!); up = (at - 1) >> 1) {
      heap[at] = heap[up]!;
      heap[up] = due;
      at = up;
    }
  }

  private pop(): Due | undefined {
    const { heap } = this;
    const first = heap[0];
    const last = heap.pop();
    if (!first || !last || heap.length === 0) return first;
    heap[0] = last;
    for (let at = 0; ;) {
      const [left, right] = [2 * at + 1, 2 * at + 2];
      let least = at;
      if (left < heap.length && isBefore(heap[left]!, heap[least]!)) least = left;
      if (right < heap.length && isBefore(heap[right]!, heap[least]!)) least = right;
      if (least === at) return first;
      [heap[at], heap[least]] = [heap[least]!, heap[at]!];
      at = least;
    }
  }
}

function isBefore(one: Due, other: Due): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);
}

function nothing(): void {
  // What was called off.
}

/** Resolves when all promises that could go on have gone on: a macrotask runs after every microtask. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A process' view of the world's time. Its wall clock can jump. */
export class ProcessClock extends Clock {
  /** How far its wall clock is off, ms. */
  offMs = 0;

  constructor(
    private readonly world: World,
    private readonly whose: string,
  ) {
    super();
  }

  now(): number {
    return this.world.nowMs + this.offMs;
  }

  monotonicMs(): number {
    return this.world.nowMs;
  }

  after(ms: number, run: () => void): Timer {
    return this.world.after(this.whose, ms, 'timer', run);
  }
}

/** The clock of the database that schedules share: that of the world under way. */
export class LedgerClock extends Clock {
  world = new World(new SeededRandom(0));

  now(): number {
    return this.world.nowMs;
  }

  monotonicMs(): number {
    return this.world.nowMs;
  }

  after(ms: number, run: () => void): Timer {
    return this.world.after('ledger', ms, 'timer', run);
  }
}
