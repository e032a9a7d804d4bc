import type { Event, Id } from '#protocol';

const ENDS = new Set<Event['type']>(['turn.completed', 'turn.failed', 'turn.stopped', 'turn.absorbed']);

/** What is wrong with all events of a session; nothing when order, gaplessness and "each thing once" hold (I1 to I4, I7). */
export function sessionFaults(events: readonly Event[]): string[] {
  return new SessionReading().read(events);
}

class SessionReading {
  private readonly faults: string[] = [];
  private readonly accepted: Id[] = [];
  private readonly started: Id[] = [];
  private readonly ended = new Set<Id>();
  private readonly attempts = new Map<Id, number>();
  private readonly recorded = new Set<string>();
  private running: Id | null = null;
  private epoch = 0;

  read(events: readonly Event[]): string[] {
    events.forEach((event, at) => {
      this.expect(event.seq === at + 1, event, `stands at position ${at + 1}`);
      this.take(event);
    });
    return this.faults;
  }

  private take(event: Event): void {
    const turn = event.turnId;
    if (event.type === 'message.accepted') {
      this.accepted.push(turn!);
      return;
    }
    if (event.type === 'owner.changed') {
      this.expect(event.data.epoch > this.epoch, event, `does not exceed epoch ${this.epoch}`);
      this.epoch = event.data.epoch;
      return;
    }
    this.expect(turn !== null && !this.ended.has(turn), event, 'comes behind the end of its turn');
    if (event.type === 'turn.started') this.start(event, turn!);
    else this.expect(turn === this.running, event, `comes while ${this.running} runs`);
    if (event.type === 'turn.started' || event.type === 'turn.resumed') this.attempt(event, turn!);
    else if (ENDS.has(event.type)) this.end(turn!);
    else this.work(event, turn!);
  }

  private start(event: Event, turn: Id): void {
    this.expect(this.running === null, event, `starts while ${this.running} runs`);
    this.expect(this.accepted[this.started.length] === turn, event, 'starts out of the order of queueSeq');
    this.started.push(turn);
    this.running = turn;
  }

  private attempt(event: Extract<Event, { type: 'turn.started' | 'turn.resumed' }>, turn: Id): void {
    const before = this.attempts.get(turn) ?? 0;
    this.expect(event.data.attempt === before + 1, event, `follows attempt ${before}`);
    this.expect(event.data.epoch === this.epoch, event, `was written under epoch ${this.epoch}`);
    this.attempts.set(turn, event.data.attempt);
  }

  private work(event: Event, turn: Id): void {
    if (event.type === 'model.message') {
      this.once(event, `${turn} ${event.data.step}`);
      this.expect(event.data.attempt === this.attempts.get(turn), event, 'is of an attempt that is over');
    } else if (event.type === 'tool.call' || event.type === 'tool.result') {
      this.once(event, `${turn} ${event.type} ${event.data.callId}`);
    }
  }

  private once(event: Event, name: string): void {
    this.expect(!this.recorded.has(name), event, 'was recorded before');
    this.recorded.add(name);
  }

  private end(turn: Id): void {
    this.ended.add(turn);
    this.running = null;
  }

  private expect(holds: boolean, event: Event, otherwise: string): void {
    if (!holds)
      this.faults.push(`${event.seq} ${event.type} of ${event.turnId} ${otherwise}: ${JSON.stringify(event.data)}`);
  }
}
