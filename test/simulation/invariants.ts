import {
  type Content,
  type Event,
  type EventType,
  type ModelMessage,
  type Mode,
  type Ref,
  type SessionKey,
  sessionName,
} from '#protocol';
import type { EventLedger } from '#event-ledger';
import { modelInputFaults } from '#test-kit';

/** What an agent is about to do, or has done. */
export interface StepRun {
  session: SessionKey;
  turnId: string;
  generation: number;
  /** `model:1` or `tool:<callId>`. */
  step: string;
  epoch: number;
}

/** What the events of one session have said so far. */
interface Seen {
  lastSeq: number;
  ownerEpoch: number;
  /** The turn that has started and not ended, its present attempt, and whether its stop was requested. */
  running: { turn: string; epoch: number; attempt: number; toStop: boolean } | null;
  lastStartedQueueSeq: number;
  /** Generations of turns, by `<turnId>/<generation>`: when each was queued, and how it ended. */
  readonly queueSeqs: Map<string, number>;
  readonly ended: Map<string, EventType>;
  readonly started: Set<string>;
  readonly recorded: Set<string>;
  /** Of messages, by turnId. */
  readonly modes: Map<string, Mode>;
  readonly contents: Map<string, Content>;
  /** What the model has to be told by users: by each turn that has started, as it was at its last start, and … */
  readonly asked: Map<string, Content>;
  /** … by each message that was absorbed, as it was then. */
  readonly absorbed: Content[];
}

/**
 * Reads what the ledger says and what the agents do, after every step of a simulation, and throws at the first promise
 * that does not hold: I1 to I5 and I7 from the events alone, not from the code's own word.
 */
export class Invariants {
  private readonly sessions = new Map<string, Seen>();

  constructor(
    private readonly ledger: EventLedger,
    private readonly watched: readonly SessionKey[],
  ) {}

  /** Looks at what is new in the ledger since the last call. */
  async check(): Promise<void> {
    const lastSeqs = await this.ledger.lastSeqs(this.watched);
    for (const [at, session] of this.watched.entries()) {
      const seen = this.seen(session);
      if (lastSeqs[at] === seen.lastSeq) continue;
      for (const event of await this.ledger.events(session, seen.lastSeq, 10_000)) read(seen, event);
      demand(seen.lastSeq === lastSeqs[at], `the last seq is ${lastSeqs[at]}, the events end at ${seen.lastSeq}`);
    }
  }

  /** I4, when a step begins to run: it is not recorded yet, unless its owner was overtaken without knowing it. */
  beginStep(run: StepRun): void {
    const seen = this.seen(run.session);
    const name = stepName(run.turnId, run.generation, run.step);
    demand(run.epoch < seen.ownerEpoch || !seen.recorded.has(name), `I4: ${name} is recorded and runs again`);
  }

  /**
   * A model input: valid, and to the newest owner's turn it tells each message once that was taken up, as it was then.
   * What is read has been looked at by `check`.
   */
  readInput(run: StepRun, input: readonly ModelMessage[], content: Content): void {
    const seen = this.seen(run.session);
    const name = stepName(run.turnId, run.generation, run.step);
    const faults = modelInputFaults(input);
    demand(faults.length === 0, `the input of ${name}: ${faults.join('; ')}`);
    if (run.epoch !== seen.ownerEpoch || seen.running?.turn !== `${run.turnId}/${run.generation}`) return;
    demand(seen.asked.get(run.turnId) === content, `${name} was given ${String(content)} as its message`);
    const told = input.flatMap((message) => (message.role === 'user' ? [message.content] : []));
    const due = [...seen.asked.values(), ...seen.absorbed];
    const [are, should] = [told, due].map((texts) => JSON.stringify(texts.map(String).sort()));
    demand(are === should, `the input of ${name} tells ${are}, and was to tell ${should}`);
  }

  /** Every generation that was queued was used once, as a turn of its own or in another one, or was stopped before. */
  accountForAll(): void {
    for (const { queueSeqs, started, ended } of this.sessions.values()) {
      for (const turn of queueSeqs.keys()) {
        const uses = (started.has(turn) ? 1 : 0) + (ended.get(turn) === 'turn.absorbed' ? 1 : 0);
        demand(uses === 1 || (uses === 0 && ended.get(turn) === 'turn.stopped'), `${turn} was used ${uses} times`);
      }
    }
  }

  /** I3: whether everything that was accepted, answered or not, has ended. */
  get allEnded(): boolean {
    return [...this.sessions.values()].every(({ queueSeqs, ended }) =>
      [...queueSeqs.keys()].every((turn) => ended.has(turn)),
    );
  }

  /** How many generations of turns, in all sessions, ended with an event of this type. */
  countEnded(type: EventType): number {
    return [...this.sessions.values()].flatMap(({ ended }) => [...ended.values()]).filter((end) => end === type).length;
  }

  /** Whether the message was accepted. */
  hasAccepted(turnId: string): boolean {
    return [...this.sessions.values()].some(({ queueSeqs }) => queueSeqs.has(`${turnId}/1`));
  }

  private seen(session: SessionKey): Seen {
    const name = sessionName(session);
    let seen = this.sessions.get(name);
    if (!seen) {
      seen = {
        ...{ lastSeq: 0, ownerEpoch: 0, running: null, lastStartedQueueSeq: 0 },
        ...{ queueSeqs: new Map(), ended: new Map(), started: new Set(), recorded: new Set() },
        ...{ modes: new Map(), contents: new Map(), asked: new Map(), absorbed: [] },
      };
      this.sessions.set(name, seen);
    }
    return seen;
  }
}

function read(seen: Seen, event: Event): void {
  demand(event.seq === seen.lastSeq + 1, `a gap: seq ${event.seq} follows ${seen.lastSeq}`);
  seen.lastSeq = event.seq;
  const turn = event.turnId === null ? '' : `${event.turnId}/${event.generation}`;
  switch (event.type) {
    case 'owner.changed':
      demand(event.data.epoch > seen.ownerEpoch, `I1: epoch ${event.data.epoch} follows ${seen.ownerEpoch}`);
      seen.ownerEpoch = event.data.epoch;
      return;
    case 'message.accepted':
      demand(!seen.queueSeqs.has(turn), `${turn} was accepted twice`);
      seen.queueSeqs.set(turn, event.seq);
      seen.modes.set(event.turnId!, event.data.mode);
      seen.contents.set(event.turnId!, event.data.content);
      if (event.data.mode === 'interrupt') readInterrupt(seen, turn, event.data.interrupts);
      return;
    case 'message.edited':
      demandWaits(seen, turn, 'is edited');
      seen.contents.set(event.turnId!, event.data.content);
      return;
    case 'turn.queued':
      demand(seen.ended.has(`${event.turnId}/${event.data.retryOf}`), `${turn} retries what has not ended`);
      seen.queueSeqs.set(turn, event.seq);
      return;
    case 'turn.started':
    case 'turn.resumed':
      return readStart(seen, event, turn);
    case 'model.message':
    case 'tool.result': {
      // Whoever ends the turn of a dead owner at its start closes its calls, and goes on with nothing.
      if (event.type === 'tool.result' && event.data.outcome === 'interrupted') readRunning(seen, turn);
      else readOwners(seen, turn);
      if (event.type === 'model.message') readAttempt(seen, turn, event.data.attempt);
      const step = event.type === 'model.message' ? event.data.step : `tool:${event.data.callId}`;
      const name = `${turn}/${step}`;
      demand(!seen.recorded.has(name), `I4: ${name} was recorded twice`);
      seen.recorded.add(name);
      return;
    }
    case 'turn.absorbed': {
      const { turnId, generation } = event.data.absorbedBy;
      demandWaits(seen, turn, 'is absorbed');
      demand(
        seen.running?.turn === `${turnId}/${generation}`,
        `I2: ${turn} is absorbed by ${turnId}, which does not run`,
      );
      demand(!seen.running?.toStop, `${turn} is absorbed by ${turnId}, which is to stop`);
      demand(seen.modes.get(event.turnId!) === 'steer', `I2: ${turn} is absorbed and no steering message`);
      seen.absorbed.push(seen.contents.get(event.turnId!)!);
      return end(seen, turn, event.type);
    }
    case 'turn.stop_requested':
      demand(seen.running?.turn === turn && !seen.running.toStop, `${turn} is asked to stop, ${told(seen)} runs`);
      seen.running!.toStop = true;
      return;
    case 'turn.stopped':
      if (event.data.gate === 'stop')
        demand(seen.running?.turn !== turn, `${turn} runs and is stopped as if it waited`);
      else
        demand(seen.running?.turn === turn && seen.running.toStop, `${turn} ends as stopped and nobody asked for it`);
      return end(seen, turn, event.type);
    case 'turn.completed':
    case 'turn.failed':
      readOwners(seen, turn);
      demand(!seen.running?.toStop, `I5: ${turn} was to stop, and its end is ${event.type}`);
      return end(seen, turn, event.type);
    default:
      if (event.type.startsWith('model.') || event.type.startsWith('tool.')) readOwners(seen, turn);
  }
}

function readStart(seen: Seen, event: Extract<Event, { type: 'turn.started' | 'turn.resumed' }>, turn: string): void {
  demand(
    event.data.epoch === seen.ownerEpoch,
    `I1: ${turn} runs under ${event.data.epoch}, the owner is ${seen.ownerEpoch}`,
  );
  demand(!seen.ended.has(turn), `I7: ${turn} starts after its end`);
  if (event.type === 'turn.started') {
    demand(seen.running === null, `I2: ${turn} starts while ${told(seen)} runs`);
    const queueSeq = seen.queueSeqs.get(turn) ?? 0;
    demand(queueSeq > seen.lastStartedQueueSeq, `I2: ${turn}, queued at ${queueSeq}, starts out of order`);
    for (const [other, seq] of seen.queueSeqs) {
      demand(seq >= queueSeq || seen.ended.has(other), `I2: ${turn} starts before ${other}`);
    }
    seen.lastStartedQueueSeq = queueSeq;
    seen.started.add(turn);
    seen.asked.set(event.turnId!, seen.contents.get(event.turnId!)!);
  } else {
    demand(seen.running?.turn === turn, `I2: ${turn} resumes, but ${told(seen)} runs`);
  }
  const { epoch, attempt } = event.data;
  seen.running = { turn, epoch, attempt, toStop: seen.running?.toStop ?? false };
}

/** [H1] What a message interrupts is what runs when it is accepted, and has its stop by then. */
function readInterrupt(seen: Seen, turn: string, interrupts: Ref | undefined): void {
  const meant = interrupts ? `${interrupts.turnId}/${interrupts.generation}` : undefined;
  demand(seen.running?.turn === meant, `${turn} interrupts ${meant}, and ${told(seen)} runs`);
  demand(!seen.running || seen.running.toStop, `${turn} interrupts ${meant}, which goes on`);
}

/** Of a message that waits: it neither has been taken up nor has it ended. */
function demandWaits(seen: Seen, turn: string, what: string): void {
  demand(seen.queueSeqs.has(turn), `${turn} ${what} and was not accepted`);
  demand(!seen.started.has(turn), `${turn} ${what} and has started`);
  demand(!seen.ended.has(turn), `I7: ${turn} ${what} after its end (${seen.ended.get(turn)})`);
}

function end(seen: Seen, turn: string, type: EventType): void {
  demand(!seen.ended.has(turn), `I7: ${turn} ended twice`);
  seen.ended.set(turn, type);
  if (seen.running?.turn === turn) seen.running = null;
}

function told({ running }: Seen): string {
  return running?.turn ?? 'nothing';
}

/** I1: what an owner writes belongs to the running turn, and to an attempt of the newest epoch. */
function readOwners(seen: Seen, turn: string): void {
  readRunning(seen, turn);
  demand(seen.running?.epoch === seen.ownerEpoch, `I1: ${turn} goes on under ${seen.running?.epoch}, an older epoch`);
}

function readRunning(seen: Seen, turn: string): void {
  demand(seen.running?.turn === turn, `I1: an event of ${turn}, but ${told(seen)} runs`);
}

/** I1: a stale owner's reply of the same turn. */
function readAttempt(seen: Seen, turn: string, attempt: number): void {
  demand(
    seen.running?.attempt === attempt,
    `I1: attempt ${attempt} of ${turn} writes while ${seen.running?.attempt} runs`,
  );
}

function stepName(turnId: string, generation: number, step: string): string {
  return `${turnId}/${generation}/${step}`;
}

function demand(holds: boolean, complaint: string): void {
  if (!holds) throw new Error(complaint);
}
