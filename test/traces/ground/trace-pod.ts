import type { KeyNames, SessionKey } from '#protocol';
import {
  type ChannelListener,
  Channels,
  type Coordination,
  CoordinationHealth,
  type Database,
  Drain,
  PodIdentity,
  PresumedDead,
  Settings,
  SystemRandomness,
} from '#platform';
import { ActorSupervisor } from '#actor';
import { ChannelLiveEvents, SqlEventLedger } from '#event-ledger';
import { Intake } from '#intake';
import {
  AnnouncedWork,
  MemoryMessageQueue,
  MemoryPartitionMarks,
  type MessageQueue,
  type WaitingWork,
  RedisMessageQueue,
  RedisPartitionMarks,
} from '#message-queue';
import { PartitionFilling, Reconciler, Recovery } from '#recovery';
import { LeaseKeeper, MemorySessionLocks, RedisSessionLocks, type SessionLocks } from '#session-lock';
import { composePod, ManualClock } from '#test-kit';
import { MemoryTurnRecords, RedisTurnRecords, SqlTurns } from '#turn-lifecycle';
import { type Agent } from '#turn-runner';
import { Points } from './points.js';

/** What a pod is made of. */
export interface PodParts {
  coordination: Coordination;
  database: Database;
  keys: KeyNames;
  /** What answers messages, given the pod's points. */
  agent(points: Points): Agent;
}

export interface PodOptions {
  /** POD_ID, when it is not the name; the boot differs always. */
  podId?: string;
  settings?: Partial<Settings>;
  /** False: nothing that is said reaches anybody, and nothing is heard. */
  notified?: boolean;
  /** False: it takes messages in and runs none. */
  actors?: boolean;
  /** The database as this pod has it. */
  sees?(database: Database): Database;
}

/** A sweep of a millisecond: whatever was queued before the present one is old enough for the reconciler. */
const SETTINGS: Partial<Settings> = { leaseTtlMs: 30_000, actorIdleMs: 1_000, sweepIntervalMs: 1, refillWaitMs: 0 };

/** Says and hears through the pod's points; or, in a pod without notifications, nothing. */
class TraceChannels extends Channels {
  constructor(
    private readonly points: Points,
    private readonly channels: Channels,
    private readonly notified: boolean,
  ) {
    super();
  }

  override publish(channel: string, message: string): Promise<void> {
    return this.notified && !this.points.isDead
      ? this.points.count(() => this.channels.publish(channel, message))
      : Promise.resolve();
  }

  override async subscribe(channel: string, listener: ChannelListener): Promise<() => void> {
    if (!this.notified) return () => undefined;
    return this.channels.subscribe(channel, (message) => {
      const held = this.points.reach('hears', { message });
      if (held) void held.then(() => listener(message));
      else listener(message);
    });
  }

  override subscribers(channels: readonly string[]): Promise<{ connection: number; counts: number[] }> {
    return this.channels.subscribers(channels);
  }

  override subscribed(prefix: string): Promise<string[]> {
    return this.channels.subscribed(prefix);
  }

  override onLost(): void {
    // Nothing is ever unsubscribed here.
  }

  override onResubscribed(): void {
    // No connection is lost here.
  }
}

/**
 * One pod, composed as the app composes it, over real servers or this process' own memory. Its clock stands still and its
 * sweeps are made by the test, so nothing happens but what the test lets happen.
 */
export class TracePod {
  readonly points = new Points();
  readonly clock = new ManualClock();
  readonly drain = new Drain();
  readonly settings: Settings;
  readonly identity: PodIdentity;
  readonly keeper: LeaseKeeper;
  readonly locks: SessionLocks;
  readonly queue: MessageQueue;
  readonly supervisor: ActorSupervisor;
  readonly recovery: Recovery;
  readonly intake: Intake;
  readonly channels: Channels;

  constructor(
    readonly name: string,
    { coordination, keys, ...parts }: PodParts,
    private readonly options: PodOptions,
  ) {
    const { points: steps, clock, drain } = this;
    const random = new SystemRandomness();
    const settings = Object.assign(new Settings(), SETTINGS, options.settings);
    this.settings = settings;
    this.identity = new PodIdentity(options.podId ?? name, random.id());
    this.channels = new TraceChannels(steps, coordination.channels, options.notified ?? true);
    const { channels } = this;
    const database = steps.gate('database', options.sees?.(parts.database) ?? parts.database);
    const nouns = coordinated(coordination, keys, settings, clock);
    this.locks = steps.gate('locks', nouns.locks);
    this.queue = steps.gate('queue', nouns.queue);
    const { locks, queue } = this;
    const marks = steps.gate('marks', nouns.marks);
    const records = steps.gate('records', nouns.records);
    const turns = new SqlTurns(database);
    const ledger = new SqlEventLedger(database);
    const live = new ChannelLiveEvents(channels, keys);
    const waitingWork: WaitingWork =
      options.actors === false
        ? new AnnouncedWork(channels, keys)
        : { offer: (...work) => this.supervisor.offer(...work) };
    const agent = parts.agent(steps);
    const { intake, runner } = composePod({
      ...{ database, live, records, queue, waitingWork, health: new CoordinationHealth(coordination) },
      ...{ pod: this.identity, clock, randomness: random, steps, drain, settings: settings, agent },
    });
    this.intake = intake;
    const filling = new PartitionFilling(
      ...([settings, keys, clock, random, steps, channels, turns, queue, marks, waitingWork] as const),
    );
    this.keeper = new LeaseKeeper(this.identity, locks, clock, settings);
    const { identity, keeper } = this;
    this.supervisor = new ActorSupervisor(
      ...([settings, identity, keys, clock, drain, steps, channels, keeper, locks] as const),
      ...([queue, ledger, runner, filling, new PresumedDead(clock)] as const),
    );
    const reconciler = new Reconciler(settings, random, steps, turns, queue, marks, waitingWork);
    this.recovery = new Recovery(settings, clock, filling, reconciler);
  }

  /** Whether it hears what is said. */
  get notified(): boolean {
    return (this.options.notified ?? true) && !this.points.isDead;
  }

  async start(): Promise<void> {
    if (this.options.actors !== false) await this.supervisor.start();
  }

  post(session: SessionKey, turnId: string): Promise<unknown> {
    const message = { ...session, turnId, initiator: 'ann', content: 'go', metadata: null };
    return this.intake.postMessage({ ...message, mode: 'enqueue' });
  }

  /** Both parts of a sweep. */
  async sweep(): Promise<void> {
    await Promise.all([this.supervisor.sweep(), this.recovery.look()]);
  }

  /** Its process stands still for so long: no timer has run when it goes on. */
  stall(ms: number): void {
    this.clock.stall(ms);
  }

  die(): void {
    this.points.die();
  }

  async stop(): Promise<void> {
    this.points.die();
    this.keeper.stop();
    await this.supervisor.stop();
  }
}

function coordinated(coordination: Coordination, keys: KeyNames, settings: Settings, clock: ManualClock) {
  const { leaseTtlMs, turnRecordTtlMs } = settings;
  if (coordination.kind === 'redis') {
    const { redis } = coordination;
    return {
      locks: new RedisSessionLocks(redis, keys, leaseTtlMs),
      queue: new RedisMessageQueue(redis, keys, settings),
      marks: new RedisPartitionMarks(redis, keys),
      records: new RedisTurnRecords(redis, keys, turnRecordTtlMs),
    };
  }
  const { store } = coordination;
  return {
    locks: new MemorySessionLocks(store, keys, leaseTtlMs),
    queue: new MemoryMessageQueue(store, keys, settings, clock),
    marks: new MemoryPartitionMarks(store, keys),
    records: new MemoryTurnRecords(store, keys, turnRecordTtlMs),
  };
}
