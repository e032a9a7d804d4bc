import { Inject, Injectable } from '@nestjs/common';
import { ButlerError, type Content, sessionName } from '#protocol';
import { Database, Randomness, Settings, type Tx } from '#platform';
import { EventLedger } from '#event-ledger';
import { Turns } from '#turn-lifecycle';
import { type Admission, Arrival, type PostedMessage } from './arrival.js';
import { assertRoom } from './room.js';
import { sameMessage } from './same-message.js';

/**
 * Gate 2: one transaction, shared with others that arrive at the time, that accepts a message or finds that it was
 * accepted before. It waits for the session's row only; that the turnId is new, its insertion at the end proves. Keeps I2
 * (the order is the seq of `message.accepted`), I3 and I8.
 */
@Injectable()
export class AdmissionGate {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(Settings) private readonly settings: Pick<Settings, 'queueMaxPending'>,
  ) {}

  /** @throws ButlerError turn_mismatch, turn_stopped, session_busy, queue_full; UnavailableError */
  async admit(message: PostedMessage): Promise<Admission> {
    const arrival = new Arrival(message, this.randomness);
    return this.database.together((tx) => this.admitIn(tx, arrival), {
      lane: sessionName(message),
      bytes: messageBytes(message.content),
    });
  }

  private async admitIn(tx: Tx, arrival: Arrival): Promise<Admission> {
    const { message, turnId } = arrival;
    const [known, head, queued, live] = await Promise.all([
      arrival.mayBeKnown ? this.turns.find(tx, message.account, turnId) : null,
      this.ledger.openHead(tx, message),
      this.turns.countQueued(tx, message),
      message.mode === 'reject' ? this.turns.live(tx, message) : [],
    ]);
    arrival.mayBeKnown = true;
    if (known) {
      const turn = sameMessage(known, message, arrival.digest);
      return { turn, events: [], ownerEpoch: head.ownerEpoch, decided: [] };
    }
    // No wait from here on: others of the group would put messages in line behind the count's back.
    this.assertFree(tx, message, live.length);
    assertRoom(message, queued + this.turns.countInserted(tx, message), this.settings);
    return { ...arrival.accept(tx, head, { turns: this.turns, ledger: this.ledger }), decided: [] };
  }

  private assertFree(tx: Tx, message: PostedMessage, live: number): void {
    if (message.mode !== 'reject' || live + this.turns.countInserted(tx, message) === 0) return;
    const { sessionId } = message;
    throw new ButlerError('session_busy', 'A turn of this session runs or waits. Post again when it has ended.', {
      sessionId,
    });
  }
}

/** About what the message takes in a statement: UTF-8 needs up to three bytes for a UTF-16 unit. */
function messageBytes(content: Content): number {
  return typeof content === 'string' ? content.length * 3 : JSON.stringify(content).length * 3;
}
