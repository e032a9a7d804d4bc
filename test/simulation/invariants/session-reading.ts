import type { Content, Event, EventType, Id, Mode, Ref, SRef } from '#protocol';
import type { StepRun } from './step-run.js';
import { demand } from './violation.js';

/** The turn that has started and not ended, and its present attempt. */
interface Running {
  turn: string;
  epoch: number;
  attempt: number;
  toStop: boolean;
  /** Calls that the model has made and that have no result. */
  open: Set<Id>;
}

/** One generation of a turn, as its session's events tell it. */
export interface TurnSeen {
  ref: Ref;
  queueSeq: number;
  parent: SRef | null;
  isReport: boolean;
  state: 'queued' | 'running' | 'stop_requested' | 'ended';
  end: EventType | null;
}

type RunEvent = Extract<Event, { type: 'turn.started' | 'turn.resumed' }>;

/**
 * What the events of one session say, read in their order: I1, I2, I4 to I8 and I10 as far as one session tells them, from
 * the ledger alone and not from the code's own word.
 */
export class SessionReading {
  lastSeq = 0;
  ownerEpoch = 0;
  running: Running | null = null;
  /** Generations of turns, by `<turnId>/<generation>`. */
  readonly turns = new Map<string, TurnSeen>();
  /** Those that began to run. */
  readonly started = new Set<string>();
  /** Sessions that a turn of this one has spawned into. */
  readonly spawned = new Set<Id>();
  /** What the model has to be told by others: by each turn that has started, as it was at its last start, and … */
  readonly asked = new Map<Id, Content>();
  /** … by each message that was absorbed, as it was then. */
  absorbed: { content: Content; by: Id; isReport: boolean }[] = [];
  private readonly recorded = new Set<string>();
  /** Of messages, by turnId. */
  private readonly modes = new Map<Id, Mode>();
  private readonly contents = new Map<Id, Content>();
  /** The highest generation of each turn. */
  private readonly generations = new Map<Id, number>();
  private lastStartedQueueSeq = 0;

  /** @throws Violation */
  read(event: Event): void {
    demand(event.seq === this.lastSeq + 1, 'I10', `seq ${event.seq} follows ${this.lastSeq}`);
    this.lastSeq = event.seq;
    if (event.type === 'owner.changed') {
      const { epoch } = event.data;
      demand(epoch > this.ownerEpoch, 'I1', `epoch ${epoch} follows ${this.ownerEpoch}`);
      this.ownerEpoch = epoch;
      return;
    }
    if (event.turnId === null) return;
    const turn = `${event.turnId}/${event.generation}`;
    this.readGeneration(event, turn);
    this.readTurn(event, turn);
  }

  isRecorded({ turnId, generation, step }: StepRun): boolean {
    return this.recorded.has(`${turnId}/${generation}/${step}`);
  }

  /** Live turns by queueSeq. */
  live(): TurnSeen[] {
    const live = [...this.turns.values()].filter(({ state }) => state !== 'ended');
    return live.sort((one, other) => one.queueSeq - other.queueSeq);
  }

  private readGeneration({ turnId, generation, type }: Event, turn: string): void {
    const newest = this.generations.get(turnId!) ?? 0;
    // The refusal of a message belongs to its tombstone, whatever has happened to that since.
    demand(generation! >= newest || type === 'message.refused', 'I8', `${type} of ${turn}, and ${newest} is there`);
    this.generations.set(turnId!, Math.max(newest, generation!));
  }

  private readTurn(event: Event, turn: string): void {
    switch (event.type) {
      case 'message.accepted':
        return this.readAccepted(event, turn);
      case 'message.edited':
        this.demandWaits(turn, 'is edited');
        this.contents.set(event.turnId!, event.data.content);
        return;
      case 'turn.queued':
        return this.readRetry(event, turn);
      case 'turn.started':
      case 'turn.resumed':
        return this.readStart(event, turn);
      case 'model.message':
      case 'tool.result':
        return this.readStep(event, turn);
      case 'tool.call':
        this.demandOwners(turn);
        demand(this.running!.open.has(event.data.callId), 'I6', `${turn} makes a call that the model has not made`);
        return this.record(`${turn}/call:${event.data.callId}`);
      case 'child.spawned':
        this.demandOwners(turn);
        this.spawned.add(event.data.child.sessionId);
        return;
      case 'turn.absorbed':
        return this.readAbsorbed(event, turn);
      case 'turn.stop_requested':
        return this.readStopRequest(turn);
      case 'turn.stopped':
        return this.readStopped(event, turn);
      case 'turn.completed':
      case 'turn.failed':
        // A turn that is poisoned fails at its start, and goes on with nothing.
        if (event.type === 'turn.failed' && event.data.code === 'poisoned') this.demandRuns(turn);
        else this.demandOwners(turn);
        demand(!this.running?.toStop, 'I5', `${turn} was to stop, and its end is ${event.type}`);
        return this.end(turn, event.type);
      case 'turn.yielded':
        // Who leaves under an epoch that is nobody's any more is refused by the ledger.
        return this.demandRuns(turn);
      case 'model.text':
        return this.demandOwners(turn);
      default:
        // What is said beside the turn's life.
        return;
    }
  }

  private readAccepted({ seq, turnId, generation, data }: Extract<Event, { type: 'message.accepted' }>, turn: string) {
    demand(!this.turns.has(turn), 'I4', `${turn} was accepted twice`);
    this.queue({ turnId: turnId!, generation: generation! }, seq, data.parent ?? null);
    this.turns.get(turn)!.isReport = data.kind === 'report';
    this.modes.set(turnId!, data.mode);
    this.contents.set(turnId!, data.content);
    if (data.mode === 'interrupt') this.readInterrupt(turn, data.interrupts);
  }

  /** [H1] What a message interrupts is what runs when it is accepted, and has its stop by then. */
  private readInterrupt(turn: string, interrupts: Ref | undefined): void {
    const meant = interrupts ? `${interrupts.turnId}/${interrupts.generation}` : undefined;
    demand(this.running?.turn === meant, 'I5', `${turn} interrupts ${meant}, and ${this.told()} runs`);
    demand(!this.running || this.running.toStop, 'I5', `${turn} interrupts ${meant}, which goes on`);
  }

  private readRetry({ seq, turnId, generation, data }: Extract<Event, { type: 'turn.queued' }>, turn: string): void {
    const before = this.turns.get(`${turnId}/${data.retryOf}`);
    demand(before?.state === 'ended' || before === undefined, 'I7', `${turn} retries what has not ended`);
    demand(generation === data.retryOf + 1, 'I8', `${turn} retries generation ${data.retryOf}`);
    this.queue({ turnId: turnId!, generation: generation! }, seq, before?.parent ?? null);
  }

  private readStart(event: RunEvent, turn: string): void {
    const { epoch, attempt } = event.data;
    demand(epoch === this.ownerEpoch, 'I1', `${turn} runs under ${epoch}, the owner is ${this.ownerEpoch}`);
    const seen = this.turns.get(turn);
    demand(seen !== undefined && seen.state !== 'ended', 'I7', `${turn} starts after its end, or unheard of`);
    if (event.type === 'turn.started') this.readFirstStart(seen!, turn);
    else demand(this.running?.turn === turn, 'I2', `${turn} resumes, but ${this.told()} runs`);
    const { toStop = false, open = new Set<Id>() } = this.running ?? {};
    this.running = { turn, epoch, attempt, toStop, open };
  }

  private readFirstStart(seen: TurnSeen, turn: string): void {
    const { ref, queueSeq } = seen;
    demand(this.running === null, 'I2', `${turn} starts while ${this.told()} runs`);
    demand(queueSeq > this.lastStartedQueueSeq, 'I2', `${turn}, queued at ${queueSeq}, starts out of order`);
    for (const other of this.live()) {
      demand(other.queueSeq >= queueSeq, 'I2', `${turn} starts before ${other.ref.turnId}/${other.ref.generation}`);
    }
    this.lastStartedQueueSeq = queueSeq;
    this.started.add(turn);
    this.asked.set(ref.turnId, this.contents.get(ref.turnId)!);
    // Reports to the generation before are nobody's any more.
    this.absorbed = this.absorbed.filter(({ by, isReport }) => !(isReport && by === ref.turnId));
    seen.state = 'running';
  }

  private readStep(event: Extract<Event, { type: 'model.message' | 'tool.result' }>, turn: string): void {
    // Whoever ends the turn of a dead owner at its start closes its calls, and goes on with nothing.
    if (event.type === 'tool.result' && event.data.outcome === 'interrupted') this.demandRuns(turn);
    else this.demandOwners(turn);
    if (event.type === 'model.message') {
      const { attempt } = event.data;
      const present = this.running!.attempt;
      demand(attempt === present, 'I1', `attempt ${attempt} of ${turn} writes while ${present} runs`);
      for (const { callId } of event.data.toolCalls) this.running!.open.add(callId);
    } else {
      demand(this.running!.open.delete(event.data.callId), 'I6', `${turn} has a result without a call`);
    }
    this.record(`${turn}/${event.type === 'model.message' ? event.data.step : `tool:${event.data.callId}`}`);
  }

  private record(name: string): void {
    demand(!this.recorded.has(name), 'I4', `${name} was recorded twice`);
    this.recorded.add(name);
  }

  private readAbsorbed({ turnId, data }: Extract<Event, { type: 'turn.absorbed' }>, turn: string): void {
    const by = `${data.absorbedBy.turnId}/${data.absorbedBy.generation}`;
    this.demandWaits(turn, 'is absorbed');
    demand(this.running?.turn === by, 'I2', `${turn} is absorbed by ${by}, which does not run`);
    demand(!this.running?.toStop, 'I5', `${turn} is absorbed by ${by}, which is to stop`);
    demand(this.modes.get(turnId!) === 'steer', 'I2', `${turn} is absorbed and no steering message`);
    const { parent, isReport } = this.turns.get(turn)!;
    const isOwn = parent?.turnId === data.absorbedBy.turnId && parent.generation === data.absorbedBy.generation;
    demand(
      !isReport || isOwn,
      'I8',
      `${turn} is a report to ${parent?.turnId}/${parent?.generation}, absorbed by ${by}`,
    );
    this.absorbed.push({ content: this.contents.get(turnId!)!, by: data.absorbedBy.turnId, isReport });
    this.end(turn, 'turn.absorbed');
  }

  private readStopRequest(turn: string): void {
    demand(this.running?.turn === turn && !this.running.toStop, 'I5', `${turn} is to stop, ${this.told()} runs`);
    this.running!.toStop = true;
    this.turns.get(turn)!.state = 'stop_requested';
  }

  private readStopped({ turnId, generation, data }: Extract<Event, { type: 'turn.stopped' }>, turn: string): void {
    const isRunning = this.running?.turn === turn;
    if (data.gate === 'running') demand(isRunning && this.running!.toStop, 'I5', `${turn} ends as stopped, unasked`);
    // At its start a turn is stopped that was to stop, or that reports to a generation which is over [K2].
    if (data.gate === 'start')
      demand(!isRunning || this.running!.toStop, 'I5', `${turn} is stopped at its start, unasked`);
    if (data.gate === 'stop') demand(!isRunning, 'I5', `${turn} runs and is stopped as if it waited`);
    const ref = { turnId: turnId!, generation: generation! };
    if (!this.turns.has(turn)) this.queue(ref, 0, null);
    this.end(turn, 'turn.stopped');
  }

  private queue(ref: Ref, queueSeq: number, parent: SRef | null): void {
    this.turns.set(`${ref.turnId}/${ref.generation}`, {
      ref,
      queueSeq,
      parent,
      isReport: false,
      state: 'queued',
      end: null,
    });
  }

  private end(turn: string, type: EventType): void {
    const seen = this.turns.get(turn);
    demand(seen !== undefined && seen.state !== 'ended', 'I7', `${turn} ends twice, or unheard of`);
    seen!.state = 'ended';
    seen!.end = type;
    if (this.running?.turn !== turn) return;
    demand(this.running.open.size === 0, 'I6', `${turn} ends and leaves calls open: ${[...this.running.open].join()}`);
    this.running = null;
  }

  /** Of a message that waits: it neither has been taken up nor has it ended. */
  private demandWaits(turn: string, what: string): void {
    const seen = this.turns.get(turn);
    demand(seen !== undefined, 'I8', `${turn} ${what} and was not accepted`);
    demand(seen!.state !== 'ended', 'I7', `${turn} ${what} after its end (${seen!.end})`);
    demand(seen!.state === 'queued', 'I7', `${turn} ${what} and has started`);
  }

  /** What an owner writes belongs to the running turn, and to an attempt of the newest epoch. */
  private demandOwners(turn: string): void {
    this.demandRuns(turn);
    demand(
      this.running!.epoch === this.ownerEpoch,
      'I1',
      `${turn} goes on under ${this.running!.epoch}, an older epoch`,
    );
  }

  private demandRuns(turn: string): void {
    demand(this.running?.turn === turn, 'I1', `an event of ${turn}, but ${this.told()} runs`);
  }

  private told(): string {
    return this.running?.turn ?? 'nothing';
  }
}
