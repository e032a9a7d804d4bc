import { Inject, Injectable } from '@nestjs/common';
import type { Event, Id, SessionKey } from '#protocol';
import { Database, Randomness, type Tx } from '#platform';
import { EventLedger } from '#event-ledger';
import { Turns } from '#turn-lifecycle';
import { isTombstoneOf } from './same-message.js';

/** Leaves word in the ledger, once, that a message met the tombstone of its turn. What it said is not kept. */
@Injectable()
export class Refusals {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(Randomness) private readonly randomness: Randomness,
  ) {}

  /** The events written: none when it had been noted before. @throws UnavailableError */
  note(session: SessionKey, turnId: Id, initiator: string): Promise<Event[]> {
    return this.database.transaction((tx) => this.noteIn(tx, session, turnId, initiator));
  }

  private async noteIn(tx: Tx, session: SessionKey, turnId: Id, initiator: string): Promise<Event[]> {
    const row = await this.turns.lock(tx, session.account, turnId);
    const { sessionId } = session;
    if (!row || !isTombstoneOf(row, { sessionId, initiator }) || row.refusedAtMs !== null) return [];
    const head = await this.ledger.openHead(tx, session);
    const turn = { turnId, generation: row.generation };
    const events = this.ledger.append(tx, head, {
      ...{ id: this.randomness.id(), writer: { kind: 'producer' } },
      events: [{ type: 'message.refused', turn, data: { code: 'turn_stopped', initiator } }],
    });
    this.turns.noteRefusal(tx, row, head.nowMs);
    return events;
  }
}
