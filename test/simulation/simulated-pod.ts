import { KeyNames, ownerToken, partitionOf, podName, type SessionKey, sessionName } from '#protocol';
import {
  CoordinationHealth,
  Drain,
  memoryCoordination,
  PodIdentity,
  PresumedDead,
  Settings,
  StepPoints,
  UnavailableError,
} from '#platform';
import { ActorSupervisor, PodPresence } from '#actor';
import { ChannelLiveEvents } from '#event-ledger';
import { SessionStreams } from '#event-stream';
import type { Intake } from '#intake';
import { MemoryMessageQueue, MemoryPartitionMarks, type WaitingWork } from '#message-queue';
import { PartitionFilling, Reconciler, Recovery } from '#recovery';
import { composePod } from '#test-kit';
import { type Lease, LeaseKeeper, MemorySessionLocks } from '#session-lock';
import { MemoryTurnRecords, type SqlTurns } from '#turn-lifecycle';
import type { Agent } from '#turn-runner';
import type { Coverage } from './coverage.js';
import { Violation } from './invariants/violation.js';
import type { Servers } from './servers.js';
import { Wires } from './wires.js';
import { ProcessClock } from './world.js';

const KEYS = new KeyNames('sim:');

/** How long the actors of a pod that leaves may take, ms. */
const LEAVE_MS = 20_000;
/** Of step points, how many hold the pod up for a moment. */
const HELD_UP = 0.3;

/** Every named step point is a place where others may go first. */
class CountedSteps extends StepPoints {
  constructor(
    private readonly servers: Servers,
    private readonly pod: string,
  ) {
    super();
  }

  override reach(name: string, facts: Readonly<Record<string, unknown>> = {}): Promise<void> | undefined {
    const { world, coverage } = this.servers;
    const { answer, outcome } = facts;
    coverage.count('passed', [name, answer ?? outcome].filter((word) => word !== undefined).join(': '));
    return world.random.chance(HELD_UP) ? world.wait(this.pod, this.servers.travelMs(), name) : undefined;
  }
}

/** One pod, put together as the app does it; each of its calls to a server travels. */
export class SimulatedPod {
  readonly name: string;
  readonly intake: Intake;
  readonly streams: SessionStreams;
  readonly wires: Wires;
  readonly clock: ProcessClock;
  readonly keeper: LeaseKeeper;
  readonly supervisor: ActorSupervisor;
  private readonly recovery: Recovery;
  private readonly presence: PodPresence;
  private readonly drain = new Drain();
  private readonly leases = new Set<Lease>();

  constructor(
    private readonly servers: Servers,
    readonly podId: string,
    boot: number,
    { settings, agent, reconciles }: { settings: Settings; agent: Agent; reconciles: boolean },
  ) {
    const { world, store } = servers;
    const { random } = world;
    this.name = `${podId}:${boot}`;
    const pod = new PodIdentity(podId, String(boot));
    const clock = new ProcessClock(world, this.name);
    this.clock = clock;
    const wires = new Wires(this.name, servers);
    this.wires = wires;
    const { channels, database } = wires;
    const { drain } = this;
    const steps = new CountedSteps(servers, this.name);
    const dead = new PresumedDead(clock);
    const locks = new MemorySessionLocks(store, KEYS, settings.leaseTtlMs);
    const queue = wires.redis('queue', new MemoryMessageQueue(store, KEYS, settings, clock));
    const marks = wires.redis('marks', new MemoryPartitionMarks(store, KEYS));
    const records = wires.redis('records', new MemoryTurnRecords(store, KEYS, settings.turnRecordTtlMs));
    watchBurials(locks, servers);
    const wiredLocks = wires.redis('locks', locks);
    const live = new ChannelLiveEvents(channels, KEYS);
    const waitingWork: WaitingWork = { offer: (session, epoch) => this.supervisor.offer(session, epoch) };
    const health = new WiredHealth(servers);
    const { intake, runner, turns, ledger } = composePod({
      ...{ database, live, records, queue, waitingWork, health, pod, dead },
      ...{ clock, randomness: random, steps, drain, settings, agent },
    });
    countMoves(turns, servers.coverage);
    this.intake = intake;
    this.keeper = new LeaseKeeper(pod, wiredLocks, clock, settings);
    wires.onReconnected(() => void this.keeper.renewNow());
    channels.onLost(() => this.keeper.unsubscribed());
    channels.onResubscribed(() => void this.keeper.subscribed());
    const filling = new PartitionFilling(
      ...([settings, KEYS, clock, random, steps, channels, turns, queue, marks, waitingWork] as const),
    );
    this.supervisor = new ActorSupervisor(
      ...([settings, pod, KEYS, clock, drain, steps, channels, this.keeper, wiredLocks, queue, ledger] as const),
      ...([runner, filling, dead] as const),
    );
    const reconciler = new Reconciler(settings, random, steps, turns, queue, marks, waitingWork);
    if (!reconciles) reconciler.reconcile = () => Promise.resolve();
    this.recovery = new Recovery(settings, clock, filling, reconciler);
    this.keepTrack();
    this.presence = new PodPresence(settings, pod, KEYS, channels, clock, random, steps, dead);
    this.streams = new SessionStreams(ledger, live, clock, steps, settings);
  }

  /** The sessions whose lease it trusts now. */
  trusts(): SessionKey[] {
    return [...this.leases].filter((lease) => lease.trusted).map(({ session }) => session);
  }

  async start(): Promise<void> {
    this.presence.onDeath(() => void this.supervisor.lookAtWaiting());
    void this.recovery.start();
    await this.supervisor.start();
    await this.presence.start();
  }

  /** As on SIGTERM: hands over what it has. */
  async leave(): Promise<void> {
    this.drain.start();
    await this.supervisor.leaveAll(LEAVE_MS);
    this.streams.drain();
    await Promise.all([this.presence.stop(), this.supervisor.stop(), this.recovery.stop()]);
    this.keeper.stop();
  }

  /** As kill -9. */
  die(): void {
    this.servers.world.kill(this.name);
    this.wires.channels.die();
  }

  /** Notes which leases the keeper has given out and not taken back. */
  private keepTrack(): void {
    const { keeper, leases } = this;
    const [acquire, release] = [keeper.acquire.bind(keeper), keeper.release.bind(keeper)];
    keeper.acquire = async (session, epoch) => {
      const answer = await acquire(session, epoch);
      if (answer.kind === 'acquired') leases.add(answer.lease);
      return answer;
    };
    keeper.release = (lease, manner) => {
      if (manner !== 'idle') leases.delete(lease);
      return release(lease, manner).then((answer) => {
        if (answer !== 'work') leases.delete(lease);
        return answer;
      });
    };
    keeper.onLost((lease) => leases.delete(lease));
  }

  /** What it still holds for sessions. */
  leftovers(): Record<string, number> {
    const { active, idle } = this.supervisor.counts();
    const { watches, subscriptions } = this.streams.counts();
    return { active, idle, leases: this.keeper.size, watches, subscriptions };
  }
}

/** Whether Redis can be reached, as the connection knows it. */
class WiredHealth extends CoordinationHealth {
  constructor(private readonly servers: Servers) {
    super(memoryCoordination('sim:', new ProcessClock(servers.world, 'redis'), servers.store));
  }

  override async assertUp(): Promise<void> {
    if (!this.servers.redisIsUp) throw new UnavailableError('redis', 'the simulation has taken Redis away');
  }
}

/** I1: nobody who can be heard is buried. */
function watchBurials(locks: MemorySessionLocks, { store, world }: Servers): void {
  const bury = locks.bury.bind(locks);
  locks.bury = async (session, owner) => {
    const held = store.get(KEYS.lock(session)) === ownerToken(owner);
    const hears = store.subscribers(KEYS.podChannel(podName(owner))) > 0;
    const isFree = await bury(session, owner);
    if (held && hears && isFree)
      world.fail(new Violation('I1', `the lease of ${podName(owner)} is taken away, and it lives`));
    return isFree;
  };
}

/** Counts what gates 1 to 3 do to turns. */
function countMoves(turns: SqlTurns, coverage: Coverage): void {
  const { move } = turns;
  turns.move = (tx, row, name, facts) => {
    const before = row.state;
    const state = move.call(turns, tx, row, name, facts);
    coverage.count('move', `${name}: ${before} to ${state}`);
    return state;
  };
  for (const name of ['insert', 'insertTombstone', 'retry', 'stopAhead', 'edit', 'noteStopAbove'] as const) {
    const act = turns[name] as (...args: unknown[]) => unknown;
    (turns as unknown as Record<string, unknown>)[name] = (...args: unknown[]): unknown => {
      coverage.count('move', name);
      return act.apply(turns, args);
    };
  }
}

/** Of one session, the keys in Redis that an idle one must not have. */
export function keysLeft({ store }: Servers, session: SessionKey): string[] {
  const ready = KEYS.ready(partitionOf(session));
  return [
    ...[KEYS.pending(session), KEYS.processing(session)].filter((key) => store.list(key).length > 0),
    ...[KEYS.lock(session)].filter((key) => store.get(key) !== null),
    ...(store.has(ready, sessionName(session)) ? [ready] : []),
  ];
}
