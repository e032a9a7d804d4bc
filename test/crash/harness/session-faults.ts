import type { Event, Id } from '#protocol';

const ENDS = new Set<Event['type']>(['turn.completed', 'turn.failed', 'turn.stopped', 'turn.absorbed']);
/** What producers say about a turn; it may come behind the turn's end. */
const SAID_ABOUT = new Set<Event['type']>(['message.edited', 'message.refused', 'child.reported']);

/** What is wrong with all events of a session; nothing when order, gaplessness and "each thing once" hold (I1 to I4, I7). */
export function sessionFaults(events: readonly Event[]): string[] {
  return new SessionReading().read(events);
}

/** One generation of a turn. */
type Name = string;

class SessionReading {
  private readonly faults: string[] = [];
  /** Those that are in line, in its order. */
  private waiting: Name[] = [];
  private readonly ended = new Set<Name>();
  private readonly stopping = new Set<Name>();
  private readonly attempts = new Map<Name, number>();
  private readonly recorded = new Set<string>();
  private readonly openCalls = new Set<Id>();
  private running: Name | null = null;
  private epoch = 0;

  read(events: readonly Event[]): string[] {
    events.forEach((event, at) => {
      this.expect(event.seq === at + 1, event, `stands at position ${at + 1}`);
      this.take(event);
    });
    return this.faults;
  }

  private take(event: Event): void {
    if (event.type === 'owner.changed') {
      this.expect(event.data.epoch > this.epoch, event, `does not exceed epoch ${this.epoch}`);
      this.epoch = event.data.epoch;
      return;
    }
    if (SAID_ABOUT.has(event.type)) return;
    const turn = `${event.turnId}/${event.generation}`;
    this.expect(event.turnId !== null && !this.ended.has(turn), event, 'comes behind the end of its turn');
    if (event.type === 'message.accepted' || event.type === 'turn.queued') this.waiting.push(turn);
    else if (event.type === 'turn.started') this.start(event, turn);
    else if (event.type === 'turn.stopped' && turn !== this.running) this.leaveLine(turn, event.data.gate, event);
    else if (event.type === 'turn.absorbed') this.leaveLine(turn, 'stop', event);
    else this.goOn(event, turn);
  }

  private start(event: Extract<Event, { type: 'turn.started' }>, turn: Name): void {
    this.expect(this.running === null, event, `starts while ${this.running} runs`);
    this.expect(this.waiting[0] === turn, event, 'starts out of the order of queueSeq');
    this.waiting = this.waiting.filter((other) => other !== turn);
    this.running = turn;
    this.attempt(event, turn);
  }

  /** It ends without having started; or before it was born. */
  private leaveLine(turn: Name, gate: string, event: Event): void {
    this.expect(gate !== 'running', event, 'was not running');
    this.waiting = this.waiting.filter((other) => other !== turn);
    this.ended.add(turn);
  }

  private goOn(event: Event, turn: Name): void {
    this.expect(turn === this.running, event, `comes while ${this.running} runs`);
    if (event.type === 'turn.resumed') this.attempt(event, turn);
    else if (event.type === 'turn.stop_requested') this.stopping.add(turn);
    else if (ENDS.has(event.type)) this.end(event, turn);
    else this.work(event, turn);
  }

  private attempt(event: Extract<Event, { type: 'turn.started' | 'turn.resumed' }>, turn: Name): void {
    const before = this.attempts.get(turn) ?? 0;
    this.expect(event.data.attempt === before + 1, event, `follows attempt ${before}`);
    this.expect(event.data.epoch === this.epoch, event, `was written under epoch ${this.epoch}`);
    this.attempts.set(turn, event.data.attempt);
  }

  private work(event: Event, turn: Name): void {
    if (event.type === 'model.message') {
      this.once(event, `${turn} ${event.data.step}`);
      this.expect(event.data.attempt === this.attempts.get(turn), event, 'is of an attempt that is over');
    } else if (event.type === 'tool.call' || event.type === 'tool.result') {
      this.once(event, `${turn} ${event.type} ${event.data.callId}`);
      if (event.type === 'tool.call') this.openCalls.add(event.data.callId);
      else this.openCalls.delete(event.data.callId);
    }
  }

  private once(event: Event, name: string): void {
    this.expect(!this.recorded.has(name), event, 'was recorded before');
    this.recorded.add(name);
  }

  private end(event: Event, turn: Name): void {
    this.expect(this.openCalls.size === 0, event, `leaves calls open: ${[...this.openCalls].join(', ')}`);
    const isStopped = event.type === 'turn.stopped';
    this.expect(isStopped === this.stopping.has(turn), event, 'does not end as its stop wants it');
    this.openCalls.clear();
    this.ended.add(turn);
    this.running = null;
  }

  private expect(holds: boolean, event: Event, otherwise: string): void {
    if (!holds)
      this.faults.push(`${event.seq} ${event.type} of ${event.turnId} ${otherwise}: ${JSON.stringify(event.data)}`);
  }
}
