import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  Logger,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleDestroy,
  Optional,
} from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { type Server } from 'node:http';
import { ActorSupervisor, PodPresence } from '#actor';
import { Clock, type Coordination, COORDINATION, Database, Drain, LoopLag, Settings } from '#platform';
import { SessionStreams } from '#event-stream';
import { Recovery } from '#recovery';
import { FrontDoor } from './http/front-door.js';

/** How much of the grace is kept for ending what is left when the turns have been handed over, at most. */
const CLOSING_MS = 3000;
/** How long turns that are aborted at the end of their time may take to leave. The supervisor waits as long. */
const ABORT_MS = 2000;
/** How often connections that have fallen idle are closed while the last answers are under way. */
const IDLE_LOOK_MS = 25;

/**
 * Starts and ends a pod, in this order and no other. No module that it is made of has an end of its own that matters to
 * another one: so the order is the order of the lines here, not that of imports.
 *
 * 1. `onModuleDestroy`: readiness fails and nothing new is claimed. Calls are served on.
 * 2. `beforeApplicationShutdown`: actors hand their turns over while calls are served on, for the linger at least.
 *    Then streams end with their hint and new calls are refused; the last answers leave and every socket is closed.
 * 3. `onApplicationShutdown`: nobody is left who could need them, so Redis and the ledger are closed.
 *
 * Every step is bounded, and all of them together by SHUTDOWN_GRACE_MS, whatever is away.
 */
@Injectable()
export class PodLifecycle
  implements OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown, OnApplicationShutdown
{
  private readonly logger = new Logger(PodLifecycle.name);
  private deadlineMs = Infinity;

  constructor(
    @Inject(Settings) private readonly settings: Settings,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Drain) private readonly drain: Drain,
    @Inject(LoopLag) private readonly loopLag: LoopLag,
    @Inject(FrontDoor) private readonly frontDoor: FrontDoor,
    @Inject(SessionStreams) private readonly streams: SessionStreams,
    @Inject(Database) private readonly database: Database,
    @Inject(COORDINATION) private readonly coordination: Coordination,
    @Inject(HttpAdapterHost) private readonly http: HttpAdapterHost,
    @Optional() @Inject(Recovery) private readonly recovery: Recovery | null,
    @Optional() @Inject(ActorSupervisor) private readonly supervisor: ActorSupervisor | null,
    @Optional() @Inject(PodPresence) private readonly presence: PodPresence | null,
  ) {}

  /** The queues are a copy of the ledger before anybody takes from them. */
  async onApplicationBootstrap(): Promise<void> {
    this.loopLag.start();
    await this.recovery?.start();
    await this.supervisor?.start();
    this.presence?.onDeath(() => void this.supervisor?.lookAtWaiting());
    await this.presence?.start();
  }

  onModuleDestroy(): void {
    this.deadlineMs = this.clock.monotonicMs() + this.settings.shutdownGraceMs;
    this.logger.log('draining: readiness fails, turns are handed over');
    this.drain.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    const reserveMs = Math.min(CLOSING_MS, this.settings.shutdownGraceMs / 3);
    const turnsMs = Math.max(0, this.leftMs() - reserveMs);
    await Promise.all([
      this.bounded(
        'handing the turns over',
        turnsMs,
        this.supervisor?.leaveAll(Math.max(turnsMs - ABORT_MS, turnsMs / 2)),
      ),
      this.clock.sleep(Math.min(this.settings.shutdownLingerMs, turnsMs)),
    ]);
    this.frontDoor.close();
    this.streams.drain();
    await this.bounded('closing connections', this.leftMs() / 2, this.closeServer());
    await this.bounded(
      'ending the sweeps',
      this.leftMs() / 2,
      Promise.all([this.presence?.stop(), this.supervisor?.stop(), this.recovery?.stop()]),
    );
  }

  async onApplicationShutdown(): Promise<void> {
    await this.bounded('closing coordination', this.leftMs() / 2, this.coordination.close());
    await this.bounded('closing the ledger', this.leftMs() / 2, this.database.close());
    this.loopLag.stop();
    this.logger.log('stopped');
  }

  private leftMs(): number {
    return Math.max(0, this.deadlineMs - this.clock.monotonicMs());
  }

  /** Answers under way may end; connections without one are closed at once, all others when their time is over. */
  private async closeServer(): Promise<void> {
    const server = this.http.httpAdapter.getHttpServer() as Server;
    if (!server.listening) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    const idle = this.clock.every(IDLE_LOOK_MS, () => server.closeIdleConnections());
    const all = this.clock.after(this.leftMs() / 3, () => server.closeAllConnections());
    await closed;
    idle.cancel();
    all.cancel();
  }

  /** Goes on after `limitMs` at the latest, and whatever comes out. */
  private async bounded(what: string, limitMs: number, work: Promise<unknown> | undefined): Promise<void> {
    if (!work) return;
    const limit = new AbortController();
    const late = this.clock.sleep(limitMs, limit.signal).then(
      () => this.logger.warn(`${what} was not done in ${Math.round(limitMs)} ms`),
      () => undefined,
    );
    const done = work.catch((error: unknown) => this.logger.warn({ err: error }, `${what} failed`));
    await Promise.race([done, late]);
    limit.abort();
  }
}
