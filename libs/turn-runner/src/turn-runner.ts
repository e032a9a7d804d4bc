import { Inject, Injectable, Logger } from '@nestjs/common';
import {
  type Id,
  type Ref,
  type Room,
  type RunOutcome,
  sameRef,
  type SessionKey,
  sessionName,
  StaleOwnerError,
} from '#protocol';
import { Clock, Database, Drain, Randomness, Settings, StepPoints, type Timer } from '#platform';
import { EventLedger, LiveEvents } from '#event-ledger';
import type { Lease } from '#session-lock';
import { TurnRecords, Turns } from '#turn-lifecycle';
import { Absorption } from './absorption.js';
import { Agent } from './agent.js';
import { AttemptExit, LeaveSignal, type YieldReason } from './attempt-exit.js';
import { ChildDoor } from './children.js';
import { Finish } from './finish.js';
import { News } from './news.js';
import { settledWithin } from './settled-within.js';
import { StartGate, type Started } from './start-gate.js';
import { StepRecorder } from './step-recorder.js';
import { AttemptContext } from './turn-context.js';
import { type TurnEnd, turnErrorOf } from './turn-end.js';

/** How long a leaving attempt waits for its writes under way, and then for its last one. */
const LEAVE_WAIT_MS = 500;
/** How long after the signal an answer is given, whatever hangs. */
const ABANDON_MS = 3 * LEAVE_WAIT_MS;

/** Where nobody counts. */
const UNLIMITED: Room = { leave: () => undefined, enter: () => Promise.resolve() };

/** One attempt, by its session. */
interface UnderWay {
  account: Id;
  ref: Ref;
  exit: AttemptExit;
  room: Room;
  /** Of messages put in line behind the turn. */
  news: News;
}

/**
 * Works on envelopes: gate 3, the agent's steps, the turn's end.
 *
 * Owns: the attempts under way in this process. Does not own: the lease (it only looks at it) and the session's order
 * (the actor's, and gate 3 checks it). One attempt per session at a time, many sessions side by side. Keeps I1 (every
 * write is fenced), I4 (recorded steps are not run again, late results are not recorded), I5 (no agent call unless gate 3
 * has said so), I7 and I8 (the ledger's table decides every move).
 */
@Injectable()
export class TurnRunner {
  private readonly logger = new Logger(TurnRunner.name);
  private readonly underWay = new Map<string, UnderWay>();

  constructor(
    @Inject(StartGate) private readonly gate: StartGate,
    @Inject(Finish) private readonly finish: Finish,
    @Inject(Absorption) private readonly absorption: Absorption,
    @Inject(ChildDoor) private readonly childDoor: ChildDoor,
    @Inject(Agent) private readonly agent: Agent,
    @Inject(Database) private readonly database: Database,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(TurnRecords) private readonly records: TurnRecords,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(LiveEvents) private readonly live: LiveEvents,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(StepPoints) private readonly steps: StepPoints,
    @Inject(Drain) private readonly drain: Drain,
    @Inject(Settings) private readonly settings: Pick<Settings, 'stopToolWaitMs'>,
  ) {}

  /**
   * Works on one envelope under a lease until it has an outcome. Never rejects. A draining pod yields at the next place
   * where no tool call is open.
   * @param signal aborted when the lease is lost or the pod must leave at once: the answer then comes within ABANDON_MS,
   *   whatever agent, tools and ledger do. An `UnavailableError` as its reason says that it was an outage, which does not
   *   count as an attempt.
   * @param room what the turn has; one that waits for its children gives it back meanwhile
   */
  async run(lease: Lease, ref: Ref, signal: AbortSignal, room: Room = UNLIMITED): Promise<RunOutcome> {
    let timer: Timer | null = null;
    const { promise: abandoned, resolve: abandon } = Promise.withResolvers<RunOutcome>();
    const onAbort = (): void => {
      timer = this.clock.after(ABANDON_MS, () => abandon(leftOutcome(lease)));
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await Promise.race([this.workOn(lease, ref, signal, room), abandoned]);
    } finally {
      signal.removeEventListener('abort', onAbort);
      (timer as Timer | null)?.cancel();
    }
  }

  /** Never rejects. Whatever it still writes after it was abandoned is fenced by the epoch, as everything it writes. */
  private async workOn(lease: Lease, ref: Ref, signal: AbortSignal, room: Room): Promise<RunOutcome> {
    const name = sessionName(lease.session);
    const exit = new AttemptExit(lease, signal, this.drain);
    // Before the gate, so that a stop that comes right behind it finds whom to tell [Bx7].
    const own: UnderWay = { account: lease.session.account, ref, exit, room, news: new News() };
    this.underWay.set(name, own);
    try {
      const gate = await this.gate.pass(lease, ref, signal);
      if (gate.kind === 'started') this.recordRunning(lease, ref);
      return gate.kind === 'started' ? await this.attempt(lease, gate, own) : gate;
    } catch (error) {
      this.logger.error({ err: error, session: lease.session, turn: ref }, 'a turn was left because of a fault');
      return { kind: lease.trusted ? 'faulty' : 'stale' };
    } finally {
      // One that was abandoned may end when the next attempt at the turn is already there.
      if (this.underWay.get(name) === own) this.underWay.delete(name);
      exit.dispose();
    }
  }

  /** The ledger has decided; the record is a copy that nobody waits for, and the turn's end brings it up to date. */
  private recordRunning(lease: Lease, ref: Ref): void {
    this.records.advance(lease.session, ref, 'running').catch((error: unknown) => {
      this.logger.debug({ error: String(error), turn: ref }, 'the record of a running turn was not written');
    });
  }

  /**
   * Somebody says that the stop of this turn was requested. The ledger is asked first; a request for another generation,
   * or one that is not there, changes nothing [B5]. Never rejects: a lost notice is found by whoever looks later.
   */
  async stopRequested(account: Id, ref: Ref): Promise<void> {
    const meant = [...this.underWay.values()].filter((each) => each.account === account && sameRef(each.ref, ref));
    if (meant.length > 0) await this.lookForStops(meant);
  }

  /** Something was put in line behind the turn that this session runs: it may be meant for it. */
  woken(session: SessionKey): void {
    this.underWay.get(sessionName(session))?.news.tell();
  }

  /** Looks for what notices have missed: one query for all turns under way, and one more at the next step of each. */
  async look(): Promise<void> {
    const all = [...this.underWay.values()];
    for (const { news } of all) news.tell();
    if (all.length > 0) await this.lookForStops(all);
  }

  private async lookForStops(some: readonly UnderWay[]): Promise<void> {
    try {
      const states = await this.turns.states(some.map(({ account, ref }) => ({ account, ...ref })));
      some.forEach(({ exit }, at) => {
        if (states[at] === 'stop_requested') exit.leave({ kind: 'stop' });
      });
    } catch (error) {
      this.logger.warn({ err: error, turns: some.length }, 'could not look whether turns are to be stopped');
    }
  }

  private async attempt(lease: Lease, started: Started, own: UnderWay): Promise<RunOutcome> {
    const { ref, progress } = started;
    const { exit, news, room } = own;
    if (started.steeringWaits) news.tell();
    const { database, ledger, turns, live, clock, randomness, steps, absorption, childDoor } = this;
    const deps = { database, ledger, turns, live, clock, randomness, steps, absorption, childDoor };
    const recorder = new StepRecorder(deps, lease, ref, exit, progress);
    const context = new AttemptContext(deps, lease, started, exit, recorder, news, room);
    if (started.stopRequested) exit.leave({ kind: 'stop' });
    const end = await this.work(context, exit);
    try {
      if (!end) throw exit.leave({ kind: 'over' });
      exit.leave({ kind: 'over' });
      await context.windUp(this.settings.stopToolWaitMs);
      const withUsage: TurnEnd = end.kind === 'complete' ? { ...end, usage: progress.usage } : end;
      return await this.finish.end(lease, started, withUsage, exit);
    } catch (error) {
      context.abandon();
      if (error instanceof StaleOwnerError) {
        exit.leave({ kind: 'stale', refused: true, reason: 'lease' });
        await this.steps.reach('finish.refused', { turnId: ref.turnId, epoch: lease.owner.epoch });
      } else if (!(error instanceof LeaveSignal)) exit.leave({ kind: 'fault', error });
      return this.leave(lease, ref, exit, recorder);
    }
  }

  /** Lets the agent work. How it came out, or null when this attempt decides nothing about the turn. */
  private async work(context: AttemptContext, exit: AttemptExit): Promise<TurnEnd | null> {
    try {
      exit.assertMayBegin();
      await exit.race(callAgent(this.agent, context));
      return { kind: 'complete' };
    } catch (error) {
      if (exit.cause === null) return { kind: 'fail', error: turnErrorOf(error) };
      return exit.cause.kind === 'stop' ? { kind: 'stop' } : null;
    }
  }

  /** The turn stays as it is. What is under way may no longer be recorded; the ledger is told why, if it still listens. */
  private async leave(lease: Lease, ref: Ref, exit: AttemptExit, recorder: StepRecorder): Promise<RunOutcome> {
    const cause = exit.cause!;
    await settledWithin(this.clock, LEAVE_WAIT_MS, recorder.close());
    if (cause.kind === 'fault') throw cause.error;
    const hasReason = cause.kind === 'yield' || (cause.kind === 'stale' && !cause.refused);
    const refused = !hasReason || (await this.noteYield(lease, ref, cause.reason));
    return refused || cause.kind === 'stale' ? { kind: 'stale' } : leftOutcome(lease);
  }

  /**
   * Tries once. It is fenced like every write, so it is true also when the lease is not trusted any more. Whether it was
   * refused.
   */
  private async noteYield(lease: Lease, ref: Ref, reason: YieldReason): Promise<boolean> {
    let refused = false;
    await this.steps.reach('yield.before', { turnId: ref.turnId, reason });
    const append = this.ledger
      .appendGrouped(lease.session, {
        id: this.randomness.id(),
        writer: { kind: 'owner', epoch: lease.owner.epoch },
        events: [{ type: 'turn.yielded', turn: ref, data: { reason } }],
      })
      .then((events) => this.live.committed(lease.session, events))
      .catch((error: unknown) => {
        refused = error instanceof StaleOwnerError;
      });
    await settledWithin(this.clock, LEAVE_WAIT_MS, append);
    return refused;
  }
}

/** The turn stays as it is. */
function leftOutcome(lease: Lease): RunOutcome {
  return { kind: lease.trusted ? 'yielded' : 'stale' };
}

/** An agent that throws at once is one that rejects. */
async function callAgent(agent: Agent, context: AttemptContext): Promise<void> {
  await agent.run(context);
}
