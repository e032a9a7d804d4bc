import { Inject, Injectable } from '@nestjs/common';
import { type Ref, sameRef } from '#protocol';
import { Database, Randomness, Settings, type SqlRunner, type Tx, UnavailableError } from '#platform';
import { EventLedger } from '#event-ledger';
import { Family, Heads } from '#family';
import { type LiveTurn, Turns } from '#turn-lifecycle';
import { type Admission, Arrival, type PostedMessage } from './arrival.js';
import { assertMayAct } from './identity.js';
import { assertRoom } from './room.js';
import { sameMessage } from './same-message.js';

/** How often the transaction is begun again because another turn has begun to run meanwhile. */
const ROUNDS = 10;

/**
 * Gate 2 for a message that interrupts: stops the turn that runs, as gate 1 does, and puts the message in line, in one
 * transaction that keeps which turn it was. So it stops once: its resend finds the message accepted and stops nobody [F2].
 *
 * Turn rows are locked before the session's, so who runs is read again under the session's lock; if it is another by then,
 * the transaction begins again [H1].
 */
@Injectable()
export class InterruptGate {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(Family) private readonly family: Family,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(Settings) private readonly settings: Pick<Settings, 'queueMaxPending'>,
  ) {}

  /** @throws ButlerError turn_mismatch, turn_stopped, queue_full; UnavailableError */
  async admit(message: PostedMessage): Promise<Admission> {
    const arrival = new Arrival(message, this.randomness);
    for (let round = 0; round < ROUNDS; round++) {
      // Outside of the transaction, which would answer its own question with the first answer.
      const seen = await this.running(this.database, message);
      const admission = await this.database.transaction((tx) => this.admitIn(tx, arrival, seen));
      if (admission) return admission;
    }
    throw new UnavailableError('database', 'the session does not come to rest: another turn runs each time');
  }

  /** Null: another turn runs by now. */
  private async admitIn(tx: Tx, arrival: Arrival, seen: LiveTurn | undefined): Promise<Admission | null> {
    const { message } = arrival;
    const { account, initiator: by, isAdmin = false } = message;
    const known = await this.turns.find(tx, account, arrival.turnId);
    if (known) {
      return { turn: sameMessage(known, message, arrival.digest), events: [], ownerEpoch: undefined, decided: [] };
    }
    const row = seen && (await this.turns.lock(tx, account, seen.turnId));
    const below = row ? await this.turns.lockLiveBelow(tx, account, row.path) : [];
    const heads = await Heads.lock(tx, this.ledger, [message, ...below]);
    const present = await this.running(tx, message);
    if (present ? !row || !sameRef(present, row) : row) return null;
    if (row) assertMayAct(row, message, { by, isAdmin });
    assertRoom(message, await this.turns.countQueued(tx, message), this.settings);
    const head = heads.of(message);
    const interrupts: Ref | undefined = row ? { turnId: row.turnId, generation: row.generation } : undefined;
    const stop = { by, reason: 'interrupted by a message' };
    const decided = [
      ...(row?.state === 'running' ? [this.family.stop(tx, head, row, stop, this.randomness.id())] : []),
      ...(interrupts ? this.family.stopBelow(tx, heads, below, { ...stop, via: interrupts }) : []),
    ];
    const deps = { turns: this.turns, ledger: this.ledger };
    return { ...arrival.accept(tx, head, deps, interrupts), decided };
  }

  private async running(runner: SqlRunner, message: PostedMessage): Promise<LiveTurn | undefined> {
    return (await this.turns.live(runner, message)).find(({ state }) => state !== 'queued');
  }
}
