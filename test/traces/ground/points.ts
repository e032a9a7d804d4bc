import { StepPoints } from '#platform';

/** One passage of a pod: a named step point, or a call to a server (`queue.take`) and its answer (`queue.take answers`). */
export interface Passage {
  name: string;
  /** Of which session, where the call tells. */
  sessionId: string | null;
  /** The how manieth passage of this pod, from 1. */
  nth: number;
  /** What a call was answered, where this is its answer. */
  answer: unknown;
}

/** A place at which a test holds a pod. */
export interface Hold {
  /** Resolves when the pod has come to the place. */
  readonly reached: Promise<void>;
  readonly isReached: boolean;
  /** Lets it go on; it does not stop here when it has not come yet. */
  release(): void;
}

interface Wish {
  name: string;
  act(): Promise<void> | undefined;
}

type Facts = Readonly<Record<string, unknown>>;

/**
 * All places of one pod at which a test may hold it, act, make a call fail, or let the pod die. A dead pod never passes
 * another place; a call that a server has already got is carried out, and its answer is heard by nobody.
 */
export class Points extends StepPoints {
  readonly passed: string[] = [];
  /** Looks at every passage, and may hold it. */
  meet: ((passage: Passage) => Promise<void> | undefined) | null = null;
  private readonly wishes: Wish[] = [];
  private readonly underWay = new Set<Promise<unknown>>();
  private dead = false;
  private calls = 0;

  /** The calls at a server now, those that are held left out. */
  get inFlight(): readonly Promise<unknown>[] {
    return [...this.underWay];
  }

  /** Grows with every call. */
  get activity(): number {
    return this.calls;
  }

  get isDead(): boolean {
    return this.dead;
  }

  die(): void {
    this.dead = true;
  }

  override reach(name: string, facts: Facts = {}): Promise<void> | undefined {
    if (this.dead) return never();
    this.passed.push(name);
    const session = facts['session'] as { sessionId?: string } | undefined;
    const sessionId = session?.sessionId ?? null;
    const met = this.meet?.({ name, sessionId, nth: this.passed.length, answer: facts['answer'] });
    if (this.dead) return never();
    const at = this.wishes.findIndex((wish) => wish.name === name);
    const wished = at < 0 ? undefined : this.wishes.splice(at, 1)[0]!.act();
    const waits = met || wished ? Promise.all([met, wished]) : undefined;
    return waits?.then(() => (this.dead ? never() : undefined));
  }

  /** Holds the next passage of this name that has no wish yet. */
  hold(name: string): Hold {
    const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const hold = { reached, isReached: false, release };
    this.at(name, () => {
      hold.isReached = true;
      reach();
      return released;
    });
    return hold;
  }

  /** Acts at the next passage of this name that has no wish yet; what it throws, the pod meets there. */
  at(name: string, act: () => Promise<void> | undefined): void {
    this.wishes.push({ name, act });
  }

  fail(name: string, error: Error): void {
    this.at(name, () => Promise.reject(error));
  }

  /** The same port, each of its calls with a place before it and one before its answer. */
  gate<T extends object>(name: string, port: T): T {
    return new Proxy(port, {
      get: (target, property): unknown => {
        const member: unknown = Reflect.get(target, property);
        if (typeof member !== 'function') return member;
        return async (...args: unknown[]): Promise<unknown> => {
          const label = `${name}.${String(property)}`;
          const facts = { session: args[0] };
          await this.reach(label, facts);
          const call = this.count(() => (member as (...args: unknown[]) => unknown).apply(target, args));
          const answer = await call.catch(() => undefined);
          await this.reach(`${label} answers`, { ...facts, answer });
          return call;
        };
      },
    });
  }

  /** Counts a call as under way until it is answered. */
  async count<T>(call: () => T | Promise<T>): Promise<T> {
    this.calls++;
    const run = (async () => call())();
    const settled = run.then(
      () => undefined,
      () => undefined,
    );
    this.underWay.add(settled);
    try {
      return await run;
    } finally {
      this.underWay.delete(settled);
    }
  }
}

function never(): Promise<void> {
  return new Promise(() => undefined);
}
