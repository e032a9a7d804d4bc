import { Inject, Injectable, Logger } from '@nestjs/common';
import { decodeNotice, encodeNotice, KeyNames, podName, type SessionKey, sessionName } from '#protocol';
import { Channels, Clock, Drain, PodIdentity, PresumedDead, Settings, StepPoints, type Timer } from '#platform';
import { EventLedger } from '#event-ledger';
import { MessageQueue, WaitingWork } from '#message-queue';
import { type Lease, LeaseKeeper, SessionLocks } from '#session-lock';
import { Actor, type ActorDeps, type ActorHost } from './actor.js';
import { Place, Rooms, type Way } from './rooms.js';
import { PartitionFiller, TurnHandler } from './turn-handler.js';

type SupervisorSettings = Pick<Settings, 'actorMaxActive' | 'actorIdleMs' | 'sweepIntervalMs'>;

/** How many waiting sessions of one partition a sweep looks at. */
const SWEEP_READY_PER_PARTITION = 100;
/** How soon after room came free the waiting sessions are looked at, at most once in this time. */
const ROOM_LOOK_MS = 100;
/** How often a leaving pod looks whether its actors are gone. */
const DEPARTURE_LOOK_MS = 20;
/** How long actors whose turn was aborted may take to give their lease back. */
const ABORT_GRACE_MS = 2_000;

/**
 * All actors of this pod: starts one where work has no owner and there is room, wakes those it has, and sweeps for what
 * notifications have missed.
 *
 * Owns: the map of actors and the pod's room (ACTOR_MAX_ACTIVE working at once). Does not own: leases (the keeper).
 * At most one actor per session in this process, so a lock is this pod's own only if its actor is in this map (I1).
 */
@Injectable()
export class ActorSupervisor extends WaitingWork implements ActorHost {
  private readonly logger = new Logger(ActorSupervisor.name);
  private readonly actors = new Map<string, Actor>();
  private readonly deps: ActorDeps;
  private readonly unsubscribes: (() => void)[] = [];
  private readonly rooms: Rooms;
  /** Sessions that could not be served since the last sweep. Until the next one they do not stand in the way of others. */
  private readonly setBack = new Set<string>();
  private sweepTimer: Timer | null = null;
  private roomTimer: Timer | null = null;
  private sweeping = false;
  private running = false;

  constructor(
    @Inject(Settings) private readonly settings: SupervisorSettings,
    @Inject(PodIdentity) private readonly pod: PodIdentity,
    @Inject(KeyNames) private readonly keys: KeyNames,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Drain) private readonly drain: Drain,
    @Inject(StepPoints) steps: StepPoints,
    @Inject(Channels) private readonly channels: Channels,
    @Inject(LeaseKeeper) private readonly keeper: LeaseKeeper,
    @Inject(SessionLocks) private readonly locks: SessionLocks,
    @Inject(MessageQueue) private readonly queue: MessageQueue,
    @Inject(EventLedger) ledger: EventLedger,
    @Inject(TurnHandler) handler: TurnHandler,
    @Inject(PartitionFiller) filler: PartitionFiller,
    @Inject(PresumedDead) dead: PresumedDead,
  ) {
    super();
    const isOpen = (): boolean => this.running && !this.drain.started;
    this.rooms = new Rooms(settings.actorMaxActive, isOpen, () => this.lookSoon());
    this.deps = { keeper, locks, dead, ledger, queue, handler, filler, clock, steps };
  }

  async start(): Promise<void> {
    this.running = true;
    this.keeper.onLost((lease, cause) => this.leaseLost(lease, cause));
    this.unsubscribes.push(
      await this.channels.subscribe(this.keys.podChannel(podName(this.pod)), (text) => this.hear(text)),
      await this.channels.subscribe(this.keys.podsChannel(), (text) => this.hear(text)),
    );
    this.sweepTimer = this.clock.every(this.settings.sweepIntervalMs, () => void this.sweep());
    void this.sweep();
  }

  /** How many actors work and how many sleep. */
  counts(): { active: number; idle: number } {
    return { active: this.rooms.working, idle: this.actors.size - this.rooms.working };
  }

  /** A session has work and no owner: serves it here if there is room, else tells the other pods. */
  override offer(session: SessionKey, ownerEpoch?: number): void {
    if (!this.admit(session, 'named', ownerEpoch)) {
      void this.channels.publish(this.keys.podsChannel(), encodeNotice({ type: 'wake', ...session }));
    }
  }

  gone(actor: Actor, { woken, setBack }: { woken: boolean; setBack: boolean }): void {
    const name = sessionName(actor.session);
    this.actors.delete(name);
    if (setBack) this.setBack.add(name);
    if (woken && this.running) this.offer(actor.session);
  }

  /** Looks at the waiting sessions at once: some may have lost their owner. */
  async lookAtWaiting(): Promise<void> {
    try {
      if (this.running) await this.serveReady();
    } catch (error) {
      this.logger.warn({ error: String(error) }, 'the look at waiting sessions failed; the next sweep repeats it');
    }
  }

  /**
   * Looks at the waiting sessions: wakes own actors that sleep, serves those without an owner, and lets actors that have
   * slept for ACTOR_IDLE_MS go off duty; looks whether turns under way are to stop. The guarantee behind every
   * notification.
   */
  async sweep(): Promise<void> {
    if (this.sweeping || !this.running) return;
    this.sweeping = true;
    this.setBack.clear();
    try {
      for (const actor of this.actors.values()) actor.expire(this.settings.actorIdleMs);
      await Promise.all([this.serveReady(), this.deps.handler.look()]);
    } catch (error) {
      this.logger.warn({ error: String(error) }, 'the sweep failed and is repeated at the next interval');
    } finally {
      this.sweeping = false;
    }
  }

  /** Every actor leaves at its next balanced point; after `graceMs` turns are aborted. Resolves when all are gone. */
  async leaveAll(graceMs: number): Promise<void> {
    this.drain.start();
    this.rooms.admitReturning();
    for (const actor of this.actors.values()) actor.depart();
    if (await this.allGone(graceMs)) return;
    for (const actor of this.actors.values()) actor.abort(new Error('the pod must leave'));
    if (await this.allGone(ABORT_GRACE_MS)) return;
    this.logger.warn(
      { left: this.actors.size },
      'some actors did not leave in time; their leases run out by themselves',
    );
  }

  async stop(): Promise<void> {
    this.running = false;
    this.sweepTimer?.cancel();
    this.roomTimer?.cancel();
    for (const unsubscribe of this.unsubscribes.splice(0)) unsubscribe();
    await Promise.resolve();
  }

  /** The longest waiting first, as far as there is room. */
  private async serveReady(): Promise<void> {
    const ready = await this.queue.ready(SWEEP_READY_PER_PARTITION);
    const others: SessionKey[] = [];
    for (const { session } of ready) {
      const name = sessionName(session);
      const actor = this.actors.get(name);
      if (actor?.asleep) actor.wake('found');
      else if (!actor && !this.setBack.has(name)) others.push(session);
    }
    if (others.length > 0 && !this.rooms.hasPlace('found')) return;
    const owners = await this.locks.owners(others);
    const free = others.filter((_, at) => !owners[at] || this.deps.dead.has(podName(owners[at])));
    const left = free.filter((session) => !this.admit(session, 'found'));
    this.rooms.looked(left.length > 0);
  }

  /** Starts or wakes the session's actor; false when there is no room for a new one. */
  private admit(session: SessionKey, way: Way, ownerEpoch?: number): boolean {
    const name = sessionName(session);
    const present = this.actors.get(name);
    if (present) {
      present.wake(way);
      return true;
    }
    const place = new Place(this.rooms);
    if (!place.take(way)) return false;
    const { account, sessionId } = session;
    const actor = new Actor({ account, sessionId }, this.deps, this, place);
    this.actors.set(name, actor);
    void actor.start(ownerEpoch);
    return true;
  }

  private hear(text: string): void {
    const notice = decodeNotice(text);
    if (notice.type === 'wake') this.admit(notice, 'named');
    else if (notice.type === 'stop') void this.deps.handler.stopRequested(notice.account, notice);
    else if (notice.type === 'renew') void this.keeper.renewNow(notice.partitions);
  }

  private leaseLost(lease: Lease, cause: Error): void {
    const actor = this.actors.get(sessionName(lease.session));
    if (actor?.holds(lease)) actor.leaseLost(cause);
  }

  private lookSoon(): void {
    if (!this.running) return;
    this.roomTimer ??= this.clock.after(ROOM_LOOK_MS, () => {
      this.roomTimer = null;
      void this.lookAtWaiting();
    });
  }

  private async allGone(withinMs: number): Promise<boolean> {
    const until = this.clock.monotonicMs() + withinMs;
    while (this.actors.size > 0 && this.clock.monotonicMs() < until) await this.clock.sleep(DEPARTURE_LOOK_MS);
    return this.actors.size === 0;
  }
}
