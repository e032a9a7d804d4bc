import { type Database, MemoryStore, type StoreCopy } from '#platform';
import type { Coverage } from './coverage.js';
import { type Pace, scattered } from './plan.js';
import { ProcessClock, type World } from './world.js';

/** The servers that all pods share, and what ails them. */
export class Servers {
  readonly store: MemoryStore;
  /** Somebody has asked the ledger since this was last looked at. */
  touched = false;
  /** Told when a fault is met that waited for something to befall, with how long it lasts. */
  onMet: (ms: number) => void = () => undefined;
  private redisBackAtMs = 0;
  private ledgerBackAtMs = 0;
  private slow = { untilMs: 0, ms: 0 };
  private replica: StoreCopy | null = null;

  constructor(
    readonly world: World,
    readonly database: Database,
    readonly coverage: Coverage,
    private readonly pace: Pace,
  ) {
    this.store = new MemoryStore(new ProcessClock(world, 'redis'));
  }

  /** How long something takes from here to there. */
  travelMs(): number {
    const { random, nowMs } = this.world;
    const [least, most] = this.pace.travelMs;
    const ms = scattered(random, least, most);
    return nowMs < this.slow.untilMs ? ms + random.fraction() * this.slow.ms : ms;
  }

  /** How long a step of an agent takes. */
  stepMs(): number {
    const [least, most] = this.pace.stepMs;
    return scattered(this.world.random, least, most);
  }

  get redisIsUp(): boolean {
    return this.world.nowMs >= this.redisBackAtMs;
  }

  get ledgerIsUp(): boolean {
    return this.world.nowMs >= this.ledgerBackAtMs;
  }

  takeRedisAway(ms: number): void {
    this.redisBackAtMs = this.world.nowMs + ms;
  }

  takeLedgerAway(ms: number): void {
    this.ledgerBackAtMs = this.world.nowMs + ms;
  }

  /** Everything takes up to `ms` longer, for ten seconds. */
  delay(ms: number): void {
    this.slow = { untilMs: this.world.nowMs + 10_000, ms };
  }

  /** From here on writes do not reach the replica any more. */
  cutReplica(): void {
    this.replica ??= this.store.copy();
  }

  /** The replica takes over. */
  failOver(): void {
    if (this.replica) this.store.become(this.replica);
    this.replica = null;
  }
}
