import { ButlerError, type Event, isTerminal, partitionOf, podName, type Ref, type SessionKey } from '#protocol';
import type { Agent } from '#turn-runner';
import type { Ground } from './ground.js';
import type { TracePod } from './trace-pod.js';
import { after, type Operation, settled, type Standing, UNBORN } from './turn-model.js';

/** A turn as the ledger and the lists have it. */
export type Seen = Pick<Standing, 'state' | 'generation' | 'events' | 'line' | 'answer'>;

/** What the test sees and what it must see, after each operation, then at rest, then after everything was said again. */
export interface Told {
  when: string;
  seen: Seen;
  expected: Seen;
}

/** Sweeps in which everything must have come to rest. */
const SWEEPS_MAX = 6;
/** Until a pod looks again whether another one has filled what was lost. */
const LOOK_MS = 50;

/**
 * Turns side by side, each in a session of its own: one pod takes calls in, one owns, and where that one dies another
 * comes after it. Nobody hears notices, so nothing happens by itself.
 */
export class OrderStage {
  private plays: readonly Play[] = [];
  private present: TracePod | null = null;
  private owners = 0;

  private constructor(
    private readonly ground: Ground,
    private readonly agent: HeldAgent,
    readonly door: TracePod,
  ) {}

  static async open(ground: Ground, agent: HeldAgent): Promise<OrderStage> {
    return new OrderStage(ground, agent, await ground.pod('door', { notified: false, actors: false }));
  }

  /**
   * Plays each of these orders on a turn that nobody has heard of, then lets all come to rest, says everything again and
   * lets all come to rest once more.
   */
  async play(orders: readonly (readonly Operation[])[]): Promise<readonly Play[]> {
    const used = new Set<number>();
    this.plays = orders.map(() => new Play(this.ground, this, this.sessionApart(used)));
    this.agent.plays = new Map(this.plays.map((play) => [play.session.sessionId, play]));
    for (const [at, order] of orders.entries()) {
      for (const operation of order) await this.plays[at]!.perform(operation);
      // What its owner was at, it brings to its end, before the owner may die of another order.
      this.plays[at]!.release();
      await this.ground.quiet();
    }
    await this.rest('at rest');
    for (const play of this.plays) await play.repeat();
    await this.rest('said again');
    return this.plays;
  }

  /** A session in a partition that no other of these turns is in: what one loses, the others keep. */
  private sessionApart(used: Set<number>): SessionKey {
    for (;;) {
      const session = this.ground.session();
      const partition = partitionOf(session);
      if (used.has(partition)) continue;
      used.add(partition);
      return session;
    }
  }

  /** The pod that owns, or the one that comes after it. */
  async owner(): Promise<TracePod> {
    this.present ??= await this.ground.pod(`owner${++this.owners}`, { notified: false });
    return this.present;
  }

  /** The pod that owns dies, and its leases run out. */
  async crash(): Promise<void> {
    const pod = await this.owner();
    this.present = null;
    pod.die();
    for (const play of this.plays) await play.lose(pod);
  }

  /** Lets time go by in a pod: who fills what was lost waits for owners that may live, who meets it waits for the filler. */
  async pass(pod: TracePod, ms: number): Promise<void> {
    await this.ground.quiet();
    await pod.clock.advance(ms);
    await this.ground.quiet();
  }

  /** Lets the system run until nothing is left to do. */
  private async rest(when: string): Promise<void> {
    const pod = await this.owner();
    let restless = this.plays;
    for (let sweeps = 0; restless.length > 0 && sweeps < SWEEPS_MAX; sweeps++) {
      for (const { session } of restless) await this.ground.behind.letReconcile(session);
      await this.ground.sweep(pod);
      await this.pass(pod, LOOK_MS);
      const atRest = await Promise.all(restless.map((play) => play.isAtRest()));
      restless = restless.filter((_, at) => !atRest[at]);
    }
    for (const play of this.plays) await play.note(when, settled(play.model));
  }
}

/** An agent with one step, at which it is held until the play lets it go. */
export class HeldAgent implements Agent {
  plays: ReadonlyMap<string, Play> = new Map();

  async run(turn: Parameters<Agent['run']>[0]): Promise<void> {
    await turn.model(async (step) => {
      await this.plays.get(turn.session.sessionId)?.begins(turn.turn);
      step.say('done');
      return {};
    });
  }
}

/** One turn, played operation by operation beside its model. */
export class Play {
  readonly told: Told[] = [];
  /** What broke a promise that needs no model. */
  readonly complaints: string[] = [];
  model = UNBORN;
  private readonly turnId = `${this.session.sessionId}-t`;
  private isOwned = false;
  private held: (() => void) | null = null;
  private isHeld = true;
  /** Generations of which a stop was answered. */
  private readonly stopped = new Set<number>();
  /** What POST, and the retry of each generation, was answered first. */
  private readonly answers = new Map<string, unknown>();

  constructor(
    private readonly ground: Ground,
    private readonly stage: OrderStage,
    readonly session: SessionKey,
  ) {}

  async perform(operation: Operation): Promise<void> {
    this.model = after(this.model, operation);
    const answer = await this[operation]();
    await this.ground.quiet();
    await this.note(operation, this.model, answer);
  }

  /** The agent begins its step: not after a stop of this generation was answered (I5). */
  begins({ generation }: Ref): Promise<void> | undefined {
    if (this.stopped.has(generation)) this.complaints.push(`I5: generation ${generation} works after its stop`);
    if (!this.isHeld) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.held = resolve;
    return promise;
  }

  /** From now on nothing holds the agent. */
  release(): void {
    this.isHeld = false;
    this.held?.();
  }

  /** The pod is dead, and so is its lease. */
  async lose(pod: TracePod): Promise<void> {
    const { lock } = await this.ground.behind.look(this.session);
    if (lock?.startsWith(`${podName(pod.identity)}/`)) await this.ground.behind.loseLock(this.session);
  }

  async isAtRest(): Promise<boolean> {
    const { state, line } = await this.look();
    return (state === 'unborn' || isTerminal(state)) && line.length === 0;
  }

  /** Says again all that was said, and what an older generation could still say. */
  async repeat(): Promise<void> {
    const { state, generation } = await this.look();
    if (state === 'unborn') return;
    const again = async (name: string, call: () => Promise<unknown>): Promise<void> => {
      if (!this.answers.has(name)) return;
      const answer = JSON.stringify(await call());
      const first = JSON.stringify(this.answers.get(name));
      if (answer !== first) this.complaints.push(`${name} was answered ${first}, and then ${answer}`);
    };
    await again('enqueue', () => this.post());
    for (let old = 1; old < generation; old++) {
      if (this.answers.has(`retry ${old}`) || old === generation - 1)
        await again(`retry ${old}`, () => this.retryOf(old));
      else await this.refused('stale_generation', () => this.retryOf(old));
      await this.refused('stale_generation', () => this.stopOf(old));
    }
    // Envelopes of all generations come late, and no record knows them.
    const all = Array.from({ length: generation }, (_, at) => ({ turnId: this.turnId, generation: at + 1 }));
    await this.ground.behind.forget(this.session, [this.turnId]);
    for (const ref of all) await this.stage.door.queue.enqueue(this.session, ref, { initiator: 'ann', parent: null });
  }

  async note(when: string, expected: Standing, answer = ''): Promise<void> {
    const seen = { ...(await this.look()), answer };
    const { state, generation, events, line } = expected;
    this.told.push({ when, seen, expected: { state, generation, events, line, answer: expected.answer } });
  }

  private async enqueue(): Promise<string> {
    return this.answer(
      'enqueue',
      () => this.post(),
      ({ generation }) => `202 generation ${generation}`,
    );
  }

  private async stop(): Promise<string> {
    return this.answer(
      'stop',
      () => this.stopOf(null),
      ({ already, state, generation }) => {
        this.stopped.add(generation);
        return `${already ? 'already ' : ''}${state} generation ${generation}`;
      },
    );
  }

  private async start(): Promise<string> {
    const pod = await this.stage.owner();
    this.isOwned = true;
    pod.supervisor.offer(this.session);
    await this.stage.pass(pod, 0);
    return '';
  }

  private async finish(): Promise<string> {
    this.held?.();
    this.held = null;
    return '';
  }

  private async retry(): Promise<string> {
    const { generation } = await this.look();
    const present = generation || 1;
    return this.answer(
      `retry ${present}`,
      () => this.retryOf(present),
      (next) => `202 generation ${next.generation}`,
    );
  }

  private async crash(): Promise<string> {
    if (this.isOwned) await this.stage.crash();
    this.isOwned = false;
    this.held = null;
    return '';
  }

  private async flush(): Promise<string> {
    await this.ground.behind.loseAll(this.session, [this.turnId]);
    return '';
  }

  private async post() {
    const message = { ...this.session, turnId: this.turnId, initiator: 'ann', content: 'go', metadata: null };
    return (await this.stage.door.intake.postMessage({ ...message, mode: 'enqueue' })).accepted;
  }

  private stopOf(generation: number | null) {
    return this.stage.door.intake.stopTurn({ ...this.named, generation, reason: null });
  }

  private async retryOf(generation: number) {
    return (await this.stage.door.intake.retryTurn({ ...this.named, generation })).accepted;
  }

  private get named() {
    return { ...this.session, turnId: this.turnId, by: 'ann', isAdmin: false };
  }

  /** The answer in a word; a first one is kept. */
  private async answer<T>(name: string, call: () => Promise<T>, tell: (answer: T) => string): Promise<string> {
    try {
      const answer = await call();
      if (!this.answers.has(name)) this.answers.set(name, answer);
      return tell(answer);
    } catch (error) {
      if (error instanceof ButlerError) return error.code;
      throw error;
    }
  }

  private async refused(code: string, call: () => Promise<unknown>): Promise<void> {
    const said = await this.answer('', call, (answer) => JSON.stringify(answer));
    if (said !== code) this.complaints.push(`an older generation was answered ${said}`);
  }

  private async look(): Promise<Omit<Seen, 'answer'>> {
    const { account } = this.session;
    const [row, events, { pending, processing }] = await Promise.all([
      this.ground.turns.find(this.ground.database, account, this.turnId),
      this.ground.ledger.events(this.session, 0, 1_000),
      this.ground.behind.look(this.session),
    ]);
    if (events.some(({ seq }, at) => seq !== at + 1)) this.complaints.push('the seqs have a gap');
    const line = [...processing, ...pending].map((envelope) => (JSON.parse(envelope) as Ref).generation);
    const said = events.filter(({ type }) => type.startsWith('message.') || type.startsWith('turn.')).map(tell);
    return { state: row?.state ?? 'unborn', generation: row?.generation ?? 0, events: said, line };
  }
}

function tell(event: Event): string {
  const words = [event.type, event.generation];
  return (event.type === 'turn.stopped' ? [...words, event.data.gate] : words).join(' ');
}
