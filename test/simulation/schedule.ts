import { type Content, type ModelMessage, type SessionKey, sessionName } from '#protocol';
import { type Database, Settings } from '#platform';
import { SqlEventLedger } from '#event-ledger';
import { Clients } from './clients.js';
import { Coverage } from './coverage.js';
import { Invariants, Violation } from './invariants.js';
import type { StepRun } from './invariants/step-run.js';
import { demand } from './invariants/violation.js';
import { Waits } from './invariants/waits.js';
import type { Fault, FaultKind, Plan } from './plan.js';
import { SeededRandom } from './seeded-random.js';
import { Servers } from './servers.js';
import { keysLeft, SimulatedPod } from './simulated-pod.js';
import { Watcher } from './watchers.js';
import { type Happening, World } from './world.js';
import { WorkingAgent } from './working.agent.js';

/** How one schedule came out. */
export interface Report {
  plan: Plan;
  steps: number;
  elapsedMs: number;
  coverage: Coverage;
  /** What did not hold, or what the simulation itself has run into. */
  failure: Error | null;
  trace: readonly Happening[];
}

const TIMES = {
  ...{ leaseTtlMs: 30_000, leaseRenewMs: 10_000, sweepIntervalMs: 5_000, actorIdleMs: 8_000, refillWaitMs: 1_000 },
  ...{ turnMaxAttempts: 3, stopToolWaitMs: 5_000, presenceMisses: 3 },
};
/** How long what a fault has left behind may take to be mended: a lease that runs out, the sweeps after it, a filling. */
const MENDED_MS = TIMES.leaseTtlMs + 3 * TIMES.sweepIntervalMs + 15_000;
/** All lines are made at the beginning. */
const FIRST_FILLING_MS = 6_000;
/** In this time after all is quiet an idle session holds nothing any more, and … */
const IDLE_MS = TIMES.actorIdleMs + 3 * TIMES.sweepIntervalMs;
/** … in this one, what an acquiring pod was not answered or a dead one has left has run out too. */
const LEFT_MS = TIMES.leaseTtlMs + 2 * IDLE_MS;
/** Simulated time in which everything must have come to an end. */
const END_MS = 30 * 60_000;
const STEPS_MAX = 200_000;

/** Plays one plan: pods over one ledger and one Redis, clients, watchers, and what befalls them. */
export class Schedule {
  readonly world: World;
  private readonly coverage = new Coverage();
  private readonly servers: Servers;
  private readonly settings: Settings;
  private readonly invariants: Invariants;
  private readonly waits: Waits;
  private readonly clients: Clients;
  private readonly watchers: Watcher[];
  private readonly pods: SimulatedPod[] = [];
  private readonly sessions: SessionKey[];
  private boots = 0;
  private faultsLeft: number;
  private readonly isStrict: boolean;

  constructor(
    private readonly plan: Plan,
    database: Database,
  ) {
    this.world = new World(new SeededRandom(plan.seed + 1));
    this.servers = new Servers(this.world, database, this.coverage, plan.pace);
    this.servers.onMet = (ms) => this.waits.disturb(this.world.nowMs + ms + MENDED_MS);
    const { actorMaxActive, queueMaxPending, presenceCheckMs } = plan;
    this.settings = Object.assign(new Settings(), TIMES, { actorMaxActive, queueMaxPending, presenceCheckMs });
    this.sessions = plan.accounts.flatMap((account) => plan.sessionIds.map((sessionId) => ({ account, sessionId })));
    this.waits = new Waits(limitsOf(plan));
    this.invariants = new Invariants(new SqlEventLedger(database), this.sessions, this.waits);
    const { world, invariants, coverage } = this;
    const serving = (): readonly SimulatedPod[] => this.pods;
    this.clients = new Clients(plan, world, serving, invariants, coverage);
    this.watchers = plan.watched.map((at) => new Watcher(this.sessions[at]!, world, serving, coverage));
    this.faultsLeft = plan.faults.length;
    this.isStrict = takesNoLeaseAway(plan);
  }

  async play(): Promise<Report> {
    let steps = 0;
    try {
      for (let at = 0; at < this.plan.pods; at++) this.boot(`p${at}`);
      for (const fault of this.plan.faults) this.announce(fault);
      this.waits.disturb(this.world.nowMs + FIRST_FILLING_MS);
      for (; !this.isOver(); steps++) await this.step(steps);
      this.invariants.accountForAll();
      for (const watcher of this.watchers) watcher.leave();
      for (const pod of this.pods) pod.wires.disarm();
      const untilMs = this.world.nowMs + LEFT_MS;
      for (let left = true; left && this.world.nowMs < untilMs; left = this.leftovers().length > 0) {
        for (const restMs = this.world.nowMs + IDLE_MS; this.world.nowMs < restMs; steps++) await this.step(steps);
      }
      this.demandNothingLeft();
      for (const end of this.invariants.ends()) this.coverage.count('end', end);
    } catch (error) {
      this.world.fail(error);
    }
    const { plan, coverage } = this;
    return {
      plan,
      steps,
      elapsedMs: this.world.elapsedMs,
      coverage,
      failure: this.world.failure,
      trace: this.world.trace,
    };
  }

  private async step(steps: number): Promise<void> {
    const { world } = this;
    if (world.elapsedMs > END_MS || steps > STEPS_MAX) this.findNoEnd();
    await world.step();
    if (this.servers.touched) {
      await this.invariants.check(world.nowMs);
      if (this.isStrict) this.demandOneOwner();
    }
    this.servers.touched = false;
    this.waits.check(world.nowMs);
    if (world.failure) throw world.failure;
  }

  private findNoEnd(): never {
    const behind = this.watchers.filter((watcher) => !this.hasCaughtUp(watcher));
    const isAllDone = this.clients.areDone && this.invariants.allEnded;
    if (isAllDone && behind.length > 0) throw new Violation('I10', `${behind.length} watchers do not catch up`);
    throw new Violation('I3', 'there is no end');
  }

  /** I1, where nothing has taken a lease away early: at most one pod trusts in its lease of a session. */
  private demandOneOwner(): void {
    const owners = new Map<string, string>();
    for (const pod of this.pods) {
      if (this.world.isFrozen(pod.name)) continue;
      for (const session of pod.trusts()) {
        const other = owners.get(sessionName(session));
        demand(!other, 'I1', `${other} and ${pod.name} both trust in their lease of ${sessionName(session)}`);
        owners.set(sessionName(session), pod.name);
      }
    }
  }

  private isOver(): boolean {
    const { clients, invariants, watchers } = this;
    if (this.faultsLeft > 0 || !clients.areDone || !invariants.allEnded || this.pods.length === 0) return false;
    return watchers.every((watcher) => this.hasCaughtUp(watcher));
  }

  private hasCaughtUp({ session, cursor }: Watcher): boolean {
    return this.invariants.known.some(
      (known) => sessionName(known.session) === sessionName(session) && known.lastSeq === cursor,
    );
  }

  private boot(podId: string): void {
    const { servers, settings, world } = this;
    let pod: SimulatedPod | null = null;
    const agent = new WorkingAgent({
      begin: (run) => this.observe(() => this.invariants.beginStep(run)),
      read: (run: StepRun, input: readonly ModelMessage[], content: Content) =>
        this.observe(() => this.invariants.readInput(run, input, content)),
      hold: (_run, signal) => pod!.clock.sleep(servers.stepMs(), signal),
      die: () => {
        this.coverage.count('fault', 'killed by a turn');
        this.crash(pod!, 500);
      },
    });
    pod = new SimulatedPod(servers, podId, ++this.boots, { settings, agent, reconciles: this.plan.theme !== 'plain' });
    world.note(pod.name, 'boots');
    this.pods.push(pod);
    void pod.start();
  }

  private observe(look: () => void): void {
    try {
      look();
    } catch (error) {
      this.world.fail(error);
    }
  }

  private announce(fault: Fault): void {
    const { world, servers } = this;
    if (fault.kind === 'redis_failover') {
      world.after('world', Math.max(0, fault.atMs - fault.ms), 'the replica falls behind', () => servers.cutReplica());
    }
    world.after('world', fault.atMs, `${fault.kind} of pod ${fault.pod}, ${Math.round(fault.ms)} ms`, () => {
      this.waits.disturb(world.nowMs + Math.max(fault.ms, 0) + MENDED_MS);
      this.befall(fault);
      this.faultsLeft--;
    });
  }

  private befall(fault: Fault): void {
    const { kind, ms } = fault;
    const { world, servers } = this;
    const pod = this.pods[fault.pod % Math.max(1, this.pods.length)];
    switch (kind) {
      case 'redis_flushed':
        this.coverage.count('fault', kind);
        return servers.store.clear();
      case 'redis_restarted':
        this.coverage.count('fault', kind);
        servers.store.clear();
        return this.breakRedis();
      case 'redis_failover':
        this.coverage.count('fault', kind);
        servers.failOver();
        return this.breakRedis();
      case 'redis_away':
        this.coverage.count('fault', kind);
        servers.takeRedisAway(ms);
        return world.after('world', ms, 'Redis is back', () => this.breakRedis()) && undefined;
      case 'ledger_away':
        this.coverage.count('fault', kind);
        return servers.takeLedgerAway(ms);
      case 'calls_delayed':
        this.coverage.count('fault', kind);
        return servers.delay(ms);
      default:
        if (pod) this.befallPod(pod, fault);
    }
  }

  private befallPod(pod: SimulatedPod, fault: Fault): void {
    const { kind, ms } = fault;
    switch (kind) {
      case 'crash':
        this.coverage.count('fault', kind);
        return this.crash(pod, ms);
      case 'rollout':
        this.coverage.count('fault', kind);
        return void this.rollOut(pod);
      case 'pause':
      case 'stall':
        if (pod.wires.isFrozen) return;
        this.coverage.count('fault', kind);
        return pod.wires.freeze(ms);
      case 'clock_jump':
        this.coverage.count('fault', kind);
        pod.clock.offMs += ms;
        return;
      case 'subscription_lost':
        this.coverage.count('fault', kind);
        return void pod.wires.channels.lose(ms);
      case 'notices_lost':
        return pod.wires.loseNotices(ms);
      default:
        return pod.wires.arm(fault);
    }
  }

  private breakRedis(): void {
    for (const pod of this.pods) {
      void pod.wires.breakRedis();
      void pod.wires.channels.lose(this.world.random.fraction() * 1_000);
    }
  }

  private crash(pod: SimulatedPod, ms: number): void {
    this.waits.disturb(this.world.nowMs + ms + MENDED_MS);
    this.remove(pod);
    this.world.after('world', ms, `${pod.podId} boots again`, () => this.boot(pod.podId));
  }

  /** Gone without a word. */
  private remove(pod: SimulatedPod): void {
    const at = this.pods.indexOf(pod);
    if (at >= 0) this.pods.splice(at, 1);
    pod.die();
    this.clients.onDeath(pod.name);
    for (const watcher of this.watchers) watcher.onDeath(pod.name);
  }

  private async rollOut(pod: SimulatedPod): Promise<void> {
    this.boot(`${pod.podId}n`);
    await pod.leave();
    this.remove(pod);
  }

  /** I11: everybody has been idle for long enough. */
  private demandNothingLeft(): void {
    demand(this.leftovers().length === 0, 'I11', `all is done, and left are ${this.leftovers().join()}`);
  }

  /** What is still held for sessions. */
  private leftovers(): string[] {
    const { servers } = this;
    const ofPods = this.pods.flatMap((pod) =>
      Object.entries(pod.leftovers()).flatMap(([what, count]) =>
        count > 0 ? [`${count} ${what} of ${pod.name}`] : [],
      ),
    );
    const ofSessions = this.invariants.known.flatMap(({ session }) => keysLeft(servers, session));
    return [...ofPods, ...ofSessions];
  }
}

/** Faults after which nobody can own a session beside one who trusts in its lease, by themselves and together. */
const LEASES_STAND: readonly (readonly FaultKind[])[] = [
  ['crash', 'rollout', 'redis_flushed', 'clock_jump', 'notice_doubled', 'ledger_unreached', 'commit_repeated'],
  [
    'crash',
    'rollout',
    'stall',
    'stall_before_commit',
    'pause',
    'clock_jump',
    'notices_lost',
    'notice_doubled',
    'ledger_away',
    'commit_unanswered',
  ],
];

function takesNoLeaseAway({ pace, faults }: Plan): boolean {
  return pace.name === 'near' && LEASES_STAND.some((kinds) => faults.every(({ kind }) => kinds.includes(kind)));
}

/** On a near network a notice is enough; else a sweep may be needed, whose calls take their time. */
function limitsOf({ pace, theme }: Plan): { startMs: number; stopMs: number } {
  const stepMs = pace.stepMs[1];
  if (theme === 'full' || theme === 'poison') return { startMs: Infinity, stopMs: 60_000 };
  if (pace.name === 'near') return { startMs: 1_000, stopMs: 1_000 };
  const sweepMs = TIMES.sweepIntervalMs + 20 * pace.travelMs[1];
  return { startMs: 2 * sweepMs, stopMs: 2 * sweepMs + stepMs };
}
