import { type KeyNames, podName, type SessionKey } from '#protocol';
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
import { ActorSupervisor, PodPresence } from '#actor';
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

interface Subscription {
  channel: string;
  listener: ChannelListener;
  end(): void;
}

/**
 * Says and hears through the pod's points; or, in a pod without notifications, nothing. What it is subscribed to is lost
 * and comes back when the test says so.
 */
class TraceChannels extends Channels {
  private readonly standing = new Set<Subscription>();
  private readonly lost: (() => void)[] = [];
  private readonly resubscribed: (() => void)[] = [];

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
    const subscription = { channel, listener, end: await this.join(channel, listener) };
    this.standing.add(subscription);
    return () => {
      this.standing.delete(subscription);
      subscription.end();
    };
  }

  override subscribers(channels: readonly string[]): Promise<{ connection: number; counts: number[] }> {
    return this.channels.subscribers(channels);
  }

  override subscribed(prefix: string): Promise<string[]> {
    return this.channels.subscribed(prefix);
  }

  override onLost(listener: () => void): void {
    this.lost.push(listener);
  }

  override onResubscribed(listener: () => void): void {
    this.resubscribed.push(listener);
  }

  lose(): void {
    for (const { end } of this.standing) end();
    for (const listener of this.lost) listener();
  }

  async comeBack(): Promise<void> {
    for (const each of this.standing) each.end = await this.join(each.channel, each.listener);
    for (const listener of this.resubscribed) listener();
  }

  private join(channel: string, listener: ChannelListener): Promise<() => void> {
    return this.channels.subscribe(channel, (message) => {
      const held = this.points.reach('hears', { message });
      if (held) void held.then(() => listener(message));
      else listener(message);
    });
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
  /** Looks at other pods once the test has started it, when the test says so. */
  readonly presence: PodPresence;
  readonly channels: Channels;
  private readonly subscriptions: TraceChannels;
  private readonly ownChannel: string;

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
    this.subscriptions = new TraceChannels(steps, coordination.channels, options.notified ?? true);
    this.channels = this.subscriptions;
    this.ownChannel = keys.podChannel(podName(this.identity));
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
    channels.onLost(() => keeper.unsubscribed());
    channels.onResubscribed(() => void keeper.subscribed());
    const dead = new PresumedDead(clock);
    this.supervisor = new ActorSupervisor(
      ...([settings, identity, keys, clock, drain, steps, channels, keeper, locks] as const),
      ...([queue, ledger, runner, filling, dead] as const),
    );
    this.presence = new PodPresence(...([settings, identity, keys, channels, clock, random, steps, dead] as const));
    this.presence.onDeath(() => void this.supervisor.lookAtWaiting());
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

  /** Its subscriptions are gone, and Redis knows it. */
  async dropOff(): Promise<void> {
    this.subscriptions.lose();
    for (let heard = 1; heard > 0;) [heard = 0] = (await this.channels.subscribers([this.ownChannel])).counts;
  }

  /** Its subscriptions stand again, and it knows it. */
  comeBack(): Promise<void> {
    return this.subscriptions.comeBack();
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
