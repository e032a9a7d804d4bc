import { KeyNames } from '#protocol';
import {
  type ChannelListener,
  Channels,
  CoordinationHealth,
  type Database,
  Drain,
  memoryCoordination,
  type MemoryStore,
  PodIdentity,
  PresumedDead,
  Settings,
  StepPoints,
} from '#platform';
import { ActorSupervisor } from '#actor';
import { ChannelLiveEvents, SqlEventLedger } from '#event-ledger';
import { Intake } from '#intake';
import { MemoryMessageQueue, MemoryPartitionMarks, WaitingWork } from '#message-queue';
import { PartitionFilling, Reconciler, Recovery } from '#recovery';
import { composePod } from '#test-kit';
import { LeaseKeeper, MemorySessionLocks } from '#session-lock';
import { MemoryTurnRecords, SqlTurns } from '#turn-lifecycle';
import { type StepObserver, SteppingAgent } from './stepping.agent.js';
import { gated, PodClock, type World } from './world.js';

/** What the simulated pods share: the servers of a real system. */
export interface Servers {
  world: World;
  database: Database;
  store: MemoryStore;
  observer: Pick<StepObserver, 'begin' | 'read'>;
}

const KEYS = new KeyNames('sim:');
export const SETTINGS: Settings = Object.assign(new Settings(), {
  ...{ leaseTtlMs: 30_000, leaseRenewMs: 10_000, sweepIntervalMs: 5_000, actorIdleMs: 20_000, refillWaitMs: 1_000 },
});

/** Hears what is said only while its pod lives, and in an order of the world's choice. */
class PodChannels extends Channels {
  constructor(
    private readonly world: World,
    private readonly pod: string,
    private readonly channels: Channels,
  ) {
    super();
  }

  override publish(channel: string, message: string): Promise<void> {
    return this.channels.publish(channel, message);
  }

  override subscribe(channel: string, listener: ChannelListener): Promise<() => void> {
    return this.channels.subscribe(channel, (message) => {
      void this.world.gate(this.pod, `hears ${message}`).then(() => listener(message));
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
    // Nothing is ever unsubscribed here.
  }
}

/** Every named step point is a place where the world may go elsewhere first. */
class PodSteps extends StepPoints {
  constructor(
    private readonly world: World,
    private readonly pod: string,
  ) {
    super();
  }

  override reach(name: string): Promise<void> {
    return this.world.gate(this.pod, name);
  }
}

/** One pod, composed as the app composes it, each call to a server passing the world's gates. */
export class SimulatedPod {
  readonly intake: Intake;
  readonly supervisor: ActorSupervisor;
  private readonly recovery: Recovery;

  constructor(servers: Servers, name: string) {
    const { world, store } = servers;
    const { random } = world;
    const pod = new PodIdentity(name, random.id());
    const clock = new PodClock(world, name);
    const steps = new PodSteps(world, name);
    const drain = new Drain();
    const coordination = memoryCoordination('sim:', clock, store);
    const channels = new PodChannels(world, name, coordination.channels);
    const database = gated(world, name, 'database', servers.database);
    const locks = gated(world, name, 'locks', new MemorySessionLocks(store, KEYS, SETTINGS.leaseTtlMs));
    const queue = gated(world, name, 'queue', new MemoryMessageQueue(store, KEYS, SETTINGS, clock));
    const marks = gated(world, name, 'marks', new MemoryPartitionMarks(store, KEYS));
    const turns = new SqlTurns(database);
    const records = gated(world, name, 'records', new MemoryTurnRecords(store, KEYS, SETTINGS.turnRecordTtlMs));
    const ledger = new SqlEventLedger(database);
    const live = new ChannelLiveEvents(channels, KEYS);
    const waitingWork: WaitingWork = { offer: (session, epoch) => this.supervisor.offer(session, epoch) };
    const observer = { ...servers.observer, hold: (label: string) => world.gate(name, label) };
    const agent = new SteppingAgent(observer);
    const { intake, runner } = composePod({
      ...{ database, live, records, queue, waitingWork, health: new CoordinationHealth(coordination) },
      ...{ pod: pod, clock, randomness: random, steps, drain, settings: SETTINGS, agent },
    });
    this.intake = intake;
    const filling = new PartitionFilling(
      ...([SETTINGS, KEYS, clock, random, steps, channels, turns, queue, marks, waitingWork] as const),
    );
    const keeper = new LeaseKeeper(pod, locks, clock, SETTINGS);
    this.supervisor = new ActorSupervisor(
      ...([SETTINGS, pod, KEYS, clock, drain, steps, channels, keeper, locks, queue, ledger, runner, filling] as const),
      new PresumedDead(clock),
    );
    const reconciler = new Reconciler(SETTINGS, random, steps, turns, queue, marks, waitingWork);
    this.recovery = new Recovery(SETTINGS, clock, filling, reconciler);
  }

  start(): void {
    void this.supervisor.start();
    void this.recovery.start();
  }
}
