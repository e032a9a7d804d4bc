import { type Content, type ModelMessage, type SessionKey, sessionName, type SRef } from '#protocol';
import type { EventLedger } from '#event-ledger';
import { modelInputFaults } from '#test-kit';
import { SessionReading, type TurnSeen } from './invariants/session-reading.js';
import type { StepRun } from './invariants/step-run.js';
import { demand } from './invariants/violation.js';
import type { Waits } from './invariants/waits.js';

export type { StepRun } from './invariants/step-run.js';
export { Violation } from './invariants/violation.js';

/**
 * Reads what the ledger says and what the agents do, after every step, and throws at the first promise that does not hold.
 * Sessions that turns spawn into are read as soon as they are heard of.
 */
export class Invariants {
  private readonly sessions = new Map<string, { session: SessionKey; reading: SessionReading }>();
  private readonly begun = new Map<string, number>();

  constructor(
    private readonly ledger: EventLedger,
    watched: readonly SessionKey[],
    private readonly waits: Waits | null = null,
  ) {
    for (const session of watched) this.watch(session);
  }

  /** Looks at what is new in the ledger since the last call. @throws Violation */
  async check(nowMs = 0): Promise<void> {
    let isNew = true;
    while (isNew) {
      const before = this.sessions.size;
      await this.readAll(nowMs);
      isNew = this.sessions.size > before;
    }
  }

  /** A step begins to run: it is not recorded yet, unless its owner was overtaken without knowing it. */
  beginStep(run: StepRun): void {
    const { reading } = this.watch(run.session);
    const turn = `${run.turnId}/${run.generation}`;
    const name = `${turn}/${run.step}`;
    // Only who looks after every step has read the start by now.
    if (this.waits) demand(reading.started.has(turn), 'I5', `${name} runs, and its turn has not started`);
    demand(run.epoch < reading.ownerEpoch || !reading.isRecorded(run), 'I4', `${name} is recorded and runs again`);
    const key = `${sessionName(run.session)}/${name}`;
    const times = (this.begun.get(key) ?? 0) + 1;
    this.begun.set(key, times);
    demand(run.isRepeatable !== false || times === 1, 'I4', `${name} runs again and is not repeatable`);
  }

  /**
   * A model input: valid, and to the newest owner's turn it tells each message once that was taken up, as it was then.
   * What is read has been looked at by `check`.
   */
  readInput(run: StepRun, input: readonly ModelMessage[], content: Content): void {
    const { reading } = this.watch(run.session);
    const name = `${run.turnId}/${run.generation}/${run.step}`;
    const faults = modelInputFaults(input);
    demand(faults.length === 0, 'I6', `the input of ${name}: ${faults.join('; ')}`);
    if (run.epoch !== reading.ownerEpoch || reading.running?.turn !== `${run.turnId}/${run.generation}`) return;
    const isAsked = JSON.stringify(reading.asked.get(run.turnId)) === JSON.stringify(content);
    demand(isAsked, 'I4', `${name} was given ${JSON.stringify(content)} as its message`);
    const told = input.flatMap((message) => (message.role === 'user' ? [message.content] : []));
    const due = [...reading.asked.values(), ...reading.absorbed.map((each) => each.content)];
    const [are, should] = [told, due].map((all) => all.map((each) => JSON.stringify(each)).sort());
    const isMore = are!.length > should!.length;
    demand(
      `${are}` === `${should}`,
      isMore ? 'I4' : 'I3',
      `the input of ${name} tells ${are}, and was to tell ${should}`,
    );
  }

  /** A stop of this turn has been answered: no descendant lives on that is not to stop. */
  readStopAnswer(account: string, stopped: SRef): void {
    for (const { session, seen } of this.turns(account)) {
      // One that was retried since is another matter.
      if ((seen.state !== 'queued' && seen.state !== 'running') || seen.ref.generation > 1) continue;
      const isBelow = this.above(account, seen).some(({ ref }) => ref.turnId === stopped.turnId);
      demand(!isBelow, 'I9', `${nameOf(seen)} of ${session.sessionId} lives on below ${stopped.turnId}`);
    }
  }

  /** Every generation that was queued was used once, as a turn of its own or in another one, or was stopped before. */
  accountForAll(): void {
    for (const { reading } of this.sessions.values()) {
      for (const [turn, { queueSeq, end }] of reading.turns) {
        if (queueSeq === 0) continue;
        const uses = (reading.started.has(turn) ? 1 : 0) + (end === 'turn.absorbed' ? 1 : 0);
        const isUnused = uses === 0 && end !== 'turn.stopped';
        demand(uses < 2 && !isUnused, uses > 1 ? 'I4' : 'I3', `${turn} was used ${uses} times, its end is ${end}`);
      }
    }
  }

  /** I3: whether everything that was accepted, answered or not, has ended. */
  get allEnded(): boolean {
    return [...this.sessions.values()].every(({ reading }) => reading.live().length === 0);
  }

  /** Whether the message was accepted. */
  hasAccepted(account: string, turnId: string): boolean {
    return this.turns(account).some(({ seen }) => seen.ref.turnId === turnId && seen.queueSeq > 0);
  }

  /** Whether anything stands under this turnId, a tombstone too. */
  hasHeardOf(account: string, turnId: string): boolean {
    return this.turns(account).some(({ seen }) => seen.ref.turnId === turnId);
  }

  /** How this generation of a turn stands, where its session has heard of it. */
  find(session: SessionKey, turnId: string, generation: number): TurnSeen | undefined {
    return this.watch(session).reading.turns.get(`${turnId}/${generation}`);
  }

  /** All sessions that were heard of. */
  get known(): { session: SessionKey; lastSeq: number }[] {
    return [...this.sessions.values()].map(({ session, reading }) => ({ session, lastSeq: reading.lastSeq }));
  }

  /** How often turns came to each end. */
  ends(): string[] {
    return [...this.sessions.values()].flatMap(({ reading }) =>
      [...reading.turns.values()].flatMap(({ end }) => (end ? [end] : [])),
    );
  }

  private async readAll(nowMs: number): Promise<void> {
    const sessions = [...this.sessions.values()];
    const lastSeqs = await this.ledger.lastSeqs(sessions.map(({ session }) => session));
    for (const [at, { session, reading }] of sessions.entries()) {
      if (lastSeqs[at] === reading.lastSeq) continue;
      const events = await this.ledger.events(session, reading.lastSeq, 10_000);
      for (const event of events) {
        reading.read(event);
        if (event.type === 'turn.started')
          this.demandUnstopped(session.account, reading, event.turnId!, event.generation!);
        const by = (event.data as { by?: string; initiator?: string }).by;
        demand(by === undefined || !by.startsWith('stranger'), 'I12', `${by} has acted in ${sessionName(session)}`);
      }
      demand(reading.lastSeq === lastSeqs[at], 'I10', `the last seq is ${lastSeqs[at]}, the events end before`);
      for (const sessionId of reading.spawned) this.watch({ account: session.account, sessionId });
      this.waits?.note(sessionName(session), reading, nowMs);
    }
  }

  /** Whoever starts has nobody above who was stopped, or is to stop. */
  private demandUnstopped(account: string, reading: SessionReading, turnId: string, generation: number): void {
    const own = reading.turns.get(`${turnId}/${generation}`)!;
    const next = own.isReport && own.parent && this.nextGeneration(account, own.parent);
    demand(!next, 'I8', `${turnId} reports to ${own.parent?.turnId}/${own.parent?.generation}, which was retried`);
    for (const seen of this.above(account, own)) {
      const isStopped = seen.end === 'turn.stopped' || seen.state === 'stop_requested';
      demand(!isStopped, 'I9', `${turnId}/${generation} starts below ${nameOf(seen)}, which was stopped`);
    }
  }

  /** The generations of turns that a turn was spawned under, the nearest first. */
  private above(account: string, { parent }: TurnSeen): TurnSeen[] {
    const above: TurnSeen[] = [];
    for (let next = parent; next;) {
      const seen = this.find({ account, sessionId: next.sessionId }, next.turnId, next.generation);
      if (!seen) break;
      above.push(seen);
      next = seen.parent;
    }
    return above;
  }

  private nextGeneration(account: string, { sessionId, turnId, generation }: SRef): TurnSeen | undefined {
    return this.find({ account, sessionId }, turnId, generation + 1);
  }

  private turns(account: string): { session: SessionKey; seen: TurnSeen }[] {
    return [...this.sessions.values()]
      .filter(({ session }) => session.account === account)
      .flatMap(({ session, reading }) => [...reading.turns.values()].map((seen) => ({ session, seen })));
  }

  private watch(session: SessionKey): { session: SessionKey; reading: SessionReading } {
    const name = sessionName(session);
    const known = this.sessions.get(name);
    if (known) return known;
    const { account, sessionId } = session;
    const watched = { session: { account, sessionId }, reading: new SessionReading() };
    this.sessions.set(name, watched);
    return watched;
  }
}

function nameOf({ ref }: TurnSeen): string {
  return `${ref.turnId}/${ref.generation}`;
}
