import { type Event, type SessionKey, sessionName } from '#protocol';
import type { EventLedger } from '#event-ledger';

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
  /** The turn that has started and not ended, and its present attempt. */
  running: { turnId: string; epoch: number; attempt: number } | null;
  lastStartedQueueSeq: number;
  readonly queueSeqs: Map<string, number>;
  readonly ended: Set<string>;
  readonly recorded: Set<string>;
}

/**
 * Reads what the ledger says and what the agents do, after every step of a simulation, and throws at the first promise
 * that does not hold: I1 to I4 from the events alone, not from the code's own word.
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

  /** I3: whether everything that was accepted, answered or not, has ended. */
  get allEnded(): boolean {
    return [...this.sessions.values()].every(({ queueSeqs, ended }) => queueSeqs.size === ended.size);
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
        ...{ queueSeqs: new Map(), ended: new Set(), recorded: new Set() },
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
      return;
    case 'turn.started':
    case 'turn.resumed':
      return readStart(seen, event, turn);
    case 'model.message':
    case 'tool.result': {
      readOwners(seen, turn);
      if (event.type === 'model.message') readAttempt(seen, turn, event.data.attempt);
      const step = event.type === 'model.message' ? event.data.step : `tool:${event.data.callId}`;
      const name = `${turn}/${step}`;
      demand(!seen.recorded.has(name), `I4: ${name} was recorded twice`);
      seen.recorded.add(name);
      return;
    }
    case 'turn.completed':
    case 'turn.failed':
      readOwners(seen, turn);
      demand(!seen.ended.has(turn), `I7: ${turn} ended twice`);
      seen.ended.add(turn);
      seen.running = null;
      return;
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
    demand(seen.running === null, `I2: ${turn} starts while ${seen.running?.turnId} runs`);
    const queueSeq = seen.queueSeqs.get(turn) ?? 0;
    demand(queueSeq > seen.lastStartedQueueSeq, `I2: ${turn}, queued at ${queueSeq}, starts out of order`);
    for (const [other, seq] of seen.queueSeqs) {
      demand(seq >= queueSeq || seen.ended.has(other), `I2: ${turn} starts before ${other}`);
    }
    seen.lastStartedQueueSeq = queueSeq;
  } else {
    demand(seen.running?.turnId === turn, `I2: ${turn} resumes, but ${seen.running?.turnId} runs`);
  }
  seen.running = { turnId: turn, ...event.data };
}

/** I1: what an owner writes belongs to the running turn, and to an attempt of the newest epoch. */
function readOwners(seen: Seen, turn: string): void {
  demand(seen.running?.turnId === turn, `I1: an event of ${turn}, but ${seen.running?.turnId} runs`);
  demand(seen.running?.epoch === seen.ownerEpoch, `I1: ${turn} goes on under ${seen.running?.epoch}, an older epoch`);
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
