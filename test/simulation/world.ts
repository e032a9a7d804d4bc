import { Clock, type Timer } from '#platform';
import { SeededRandom } from './seeded-random.js';

interface Parked {
  pod: string;
  label: string;
  resume(): void;
}

interface Due {
  pod: string;
  atMs: number;
  order: number;
  run(): void;
}

/**
 * Everything in a simulation that can happen next: calls of pods that wait at a gate, and timers. The seed decides which
 * one does, so a run can be repeated exactly. A frozen pod does nothing until it thaws, a dead one nothing ever again;
 * time goes on for all.
 */
export class World {
  nowMs = 1_000_000;
  /** What happened, a line a step. */
  readonly trace: string[] = [];
  private parked: Parked[] = [];
  private due: Due[] = [];
  private order = 0;
  private readonly dead = new Set<string>();
  private readonly frozen = new Set<string>();

  constructor(readonly random: SeededRandom) {}

  /** Waits until the scheduler lets this call of the pod go on: before a step or before its reply arrives. */
  gate(pod: string, label: string): Promise<void> {
    return new Promise((resume) => {
      if (!this.dead.has(pod)) this.parked.push({ pod, label, resume });
    });
  }

  timer(pod: string, ms: number, run: () => void): Timer {
    const due: Due = { pod, atMs: this.nowMs + ms, order: this.order++, run };
    if (!this.dead.has(pod)) this.due.push(due);
    return {
      cancel: () => {
        this.due = this.due.filter((other) => other !== due);
      },
    };
  }

  kill(pod: string): void {
    this.trace.push(`-- ${pod} dies`);
    this.dead.add(pod);
    this.frozen.delete(pod);
    this.parked = this.parked.filter((call) => call.pod !== pod);
    this.due = this.due.filter((timer) => timer.pod !== pod);
  }

  freeze(pod: string): void {
    this.trace.push(`-- ${pod} freezes`);
    this.frozen.add(pod);
  }

  thaw(pod: string): void {
    this.trace.push(`-- ${pod} thaws`);
    this.frozen.delete(pod);
  }

  isFrozen(pod: string): boolean {
    return this.frozen.has(pod);
  }

  isDead(pod: string): boolean {
    return this.dead.has(pod);
  }

  /** Makes one thing happen and lets its consequences run until everybody waits again. False when nothing can happen. */
  async step(): Promise<boolean> {
    const calls = this.parked.filter((call) => !this.frozen.has(call.pod));
    const timers = this.due.filter((timer) => !this.frozen.has(timer.pod));
    if (calls.length === 0 && timers.length === 0) return false;
    if (calls.length > 0 && (timers.length === 0 || this.random.chance(0.9))) this.resume(this.random.pick(calls));
    else this.fire(timers);
    await settled();
    return true;
  }

  /** Lets time pass for all without anything happening, as when every process is slow. */
  pass(ms: number): void {
    this.trace.push(`-- ${ms} ms pass`);
    this.nowMs += ms;
  }

  private resume(call: Parked): void {
    this.parked.splice(this.parked.indexOf(call), 1);
    this.trace.push(`${call.pod} ${call.label}`);
    call.resume();
  }

  private fire(timers: Due[]): void {
    const next = timers.reduce((a, b) => (b.atMs < a.atMs || (b.atMs === a.atMs && b.order < a.order) ? b : a));
    this.due.splice(this.due.indexOf(next), 1);
    this.nowMs = Math.max(this.nowMs, next.atMs);
    this.trace.push(`${next.pod} timer at ${this.nowMs}`);
    next.run();
  }
}

/** Resolves when all promises that could go on have gone on: a macrotask runs after every microtask. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A pod's view of the world's time. */
export class PodClock extends Clock {
  constructor(
    private readonly world: World,
    private readonly pod: string,
  ) {
    super();
  }

  now(): number {
    return this.world.nowMs;
  }

  monotonicMs(): number {
    return this.world.nowMs;
  }

  after(ms: number, run: () => void): Timer {
    return this.world.timer(this.pod, ms, run);
  }
}

/** The clock of the database that all schedules share: that of the world under way. */
export class LedgerClock extends Clock {
  world = new World(new SeededRandom(0));

  now(): number {
    return this.world.nowMs;
  }

  monotonicMs(): number {
    return this.world.nowMs;
  }

  after(ms: number, run: () => void): Timer {
    return this.world.timer('ledger', ms, run);
  }
}

/**
 * The same port, but each asynchronous call waits at a gate before it is made and another before its reply arrives: so
 * calls of different pods interleave, and a pod can freeze or die between act and reply.
 */
export function gated<T extends object>(world: World, pod: string, name: string, port: T): T {
  return new Proxy(port, {
    get(target, property): unknown {
      const member: unknown = Reflect.get(target, property);
      if (typeof member !== 'function') return member;
      return async (...args: unknown[]): Promise<unknown> => {
        const label = `${name}.${String(property)}`;
        await world.gate(pod, label);
        const outcome = await settle(() => (member as (...args: unknown[]) => unknown).apply(target, args));
        await world.gate(pod, `${label} answers`);
        if ('error' in outcome) throw outcome.error;
        return outcome.value;
      };
    },
  });
}

async function settle(call: () => unknown): Promise<{ value: unknown } | { error: unknown }> {
  try {
    return { value: await call() };
  } catch (error) {
    return { error };
  }
}
