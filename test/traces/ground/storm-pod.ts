import { setImmediate as turn } from 'node:timers/promises';
import { ButlerError, type SessionKey, sessionName } from '#protocol';
import { type Database, Drain, Settings, StepPoints, SystemClock, SystemRandomness } from '#platform';
import { LiveEvents, SqlEventLedger } from '#event-ledger';
import { Lease } from '#session-lock';
import { SqlTurns } from '#turn-lifecycle';
import type { Agent } from '#turn-runner';
import type { SeededRandom } from '../../simulation/seeded-random.js';
import { type ComposedPod, composePod, lonelyCoordination } from '#test-kit';
import { type StepObserver, SteppingAgent } from './stepping.agent.js';

/** Counts the attempts at transactions that failed and were repeated, by what the server said. */
export class FailedAttempts extends StepPoints {
  private readonly counts = new Map<string, number>();

  override reach(name: string, facts: Readonly<Record<string, unknown>> = {}): Promise<void> | undefined {
    if (name !== 'database.attempt_failed') return undefined;
    const { code, message } = (facts['cause'] ?? {}) as { code?: string; message?: string };
    const kind = code ?? message ?? 'unknown';
    this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
    return undefined;
  }

  get total(): number {
    return [...this.counts.values()].reduce((sum, count) => sum + count, 0);
  }

  tell(): string {
    return [...this.counts].map(([kind, count]) => `${kind} ${count}`).join(', ') || 'none';
  }
}

interface Said {
  session: SessionKey;
  turnId: string;
}

class Unheard extends LiveEvents {
  committed(): void {
    // Nobody watches.
  }

  delta(): void {
    // Nobody watches.
  }

  follow(): Promise<() => void> {
    return Promise.resolve(() => undefined);
  }
}

const SETTINGS = Object.assign(new Settings(), {
  ...{ queueMaxPending: 100_000, turnMaxAttempts: 100_000, stopToolWaitMs: 1_000 },
});
/** How many of the last messages may be sent again. */
const RECENT = 6;
/** How often an attempt at a turn is left in the middle. */
const LEFT = 0.25;

/**
 * The part of a pod that writes to the ledger: every transaction of the path, in groups or each by itself. A session has
 * one attempt at a time in this pod, as one actor would; what other pods do at the same time is up to the fence.
 */
export class StormPod {
  readonly ledger: SqlEventLedger;
  protected readonly turns: SqlTurns;
  protected readonly grouped: ComposedPod;
  protected readonly alone: ComposedPod;
  private readonly counts = new Map<string, number>();
  protected readonly busy = new Set<string>();
  private readonly leases = new Map<string, Lease>();
  private readonly leaving = new Map<string, AbortController>();
  private readonly recent: Said[] = [];
  private readonly clock = new SystemClock();

  constructor(
    readonly name: string,
    readonly database: Database,
    protected readonly random: SeededRandom,
    private readonly agentOf: (observer: StepObserver) => Agent = (observer) => new SteppingAgent(observer),
  ) {
    this.ledger = new SqlEventLedger(database);
    this.turns = new SqlTurns(database);
    this.grouped = this.compose(database);
    this.alone = this.compose(byThemselves(database));
  }

  static count(pods: readonly StormPod[], what: string): number {
    return pods.reduce((sum, { counts }) => sum + (counts.get(what) ?? 0), 0);
  }

  static tell(pods: readonly StormPod[]): string {
    const kinds = [...new Set(pods.flatMap(({ counts }) => [...counts.keys()]))].sort();
    return kinds.map((kind) => `${kind} ${StormPod.count(pods, kind)}`).join(', ');
  }

  /** A new message. */
  async post(session: SessionKey, alone: boolean): Promise<void> {
    const message = { session, turnId: `t-${this.random.id()}` };
    this.recent.push(message);
    if (this.recent.length > RECENT) this.recent.shift();
    await this.admit(message, alone);
    this.note('post');
  }

  /** One of the last messages again, perhaps while it is still on its way. */
  async resend(alone: boolean): Promise<void> {
    if (this.recent.length === 0) return;
    await this.admit(this.random.pick(this.recent), alone);
    this.note('resent');
  }

  /** One attempt at a session's first live turn, or at another one that is not its turn yet. */
  async run(session: SessionKey, alone: boolean): Promise<void> {
    const name = sessionName(session);
    if (this.busy.has(name)) return this.resend(alone);
    this.busy.add(name);
    try {
      const line = await this.turns.live(this.database, session);
      const ref = this.random.chance(0.1) ? line.at(-1) : line[0];
      if (!ref) return this.note('nothing to run');
      const lease = await this.lease(session);
      const leave = new AbortController();
      if (this.random.chance(0.3)) this.leaving.set(ref.turnId, leave);
      const outcome = await (alone ? this.alone : this.grouped).runner.run(lease, ref, leave.signal);
      this.leaving.delete(ref.turnId);
      if (outcome.kind === 'stale' || outcome.kind === 'claim_refused') this.leases.delete(name);
      this.note(outcome.kind);
    } finally {
      this.busy.delete(name);
    }
  }

  /** Runs what is left of a session to its end. */
  async drain(session: SessionKey): Promise<void> {
    while ((await this.turns.live(this.database, session)).length > 0) {
      this.leases.delete(sessionName(session));
      await this.run(session, false);
    }
  }

  /** Ends the attempt at this turn before long, if it is one that may be left in the middle. */
  leaveAfter(turnId: string, ms: number): boolean {
    const leave = this.leaving.get(turnId);
    if (leave) setTimeout(() => leave.abort(new Error('the pod must leave')), ms).unref();
    return leave !== undefined;
  }

  private async admit({ session, turnId }: Said, alone: boolean): Promise<void> {
    const message = { ...session, turnId, initiator: 'ann', content: 'go', mode: 'enqueue', metadata: null } as const;
    try {
      await (alone ? this.alone : this.grouped).admission.admit(message);
    } catch (error) {
      throw error instanceof ButlerError ? error : new Error(`not taken in: ${String(error)}`, { cause: error });
    }
  }

  /** The lease of before, or the next epoch's: whether that is the newest, its first write finds out. */
  private async lease(session: SessionKey): Promise<Lease> {
    const name = sessionName(session);
    const known = this.leases.get(name);
    if (known && this.random.chance(0.8)) return known;
    const epoch = (await this.ledger.ownerEpoch(session)) + 1;
    const lease = new Lease(session, { podId: this.name, boot: 'b', epoch }, this.clock, Infinity);
    this.leases.set(name, lease);
    return lease;
  }

  protected note(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  private compose(database: Database): ComposedPod {
    const { clock } = this;
    const agent = this.agentOf({
      begin: ({ turnId }) => this.mayLeave(turnId),
      hold: () => turn(),
    });
    return composePod({
      ...{ database, clock, agent, live: new Unheard(), randomness: new SystemRandomness(), steps: new StepPoints() },
      ...{ drain: new Drain(), settings: SETTINGS },
      ...lonelyCoordination(clock, SETTINGS),
    });
  }

  private mayLeave(turnId: string): void {
    if (this.random.chance(LEFT)) this.leaving.get(turnId)?.abort(new Error('the pod must leave'));
  }
}

/** The same database, with every transaction by itself. */
function byThemselves(database: Database): Database {
  return Object.create(database, { together: { value: database.transaction.bind(database) } }) as Database;
}
