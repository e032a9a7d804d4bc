import { Inject, Injectable } from '@nestjs/common';
import { ButlerError, type Content, type Event, type EventData, type Id, type SessionKey } from '#protocol';
import { Database, Randomness, type Tx } from '#platform';
import { EventLedger } from '#event-ledger';
import { type TurnRow, Turns } from '#turn-lifecycle';
import { type Actor, assertMayAct } from './identity.js';
import { digestOf } from './message-digest.js';

/** Another content for a message that still waits, validated. */
export interface EditRequest extends SessionKey, Actor {
  turnId: Id;
  content: Content;
}

/** `events` is empty when the message had this content already. */
export interface Edited {
  turn: TurnRow;
  events: Event[];
}

/**
 * Changes the content of a message that is still queued, under the turn's lock: gate 3 reads the content under that lock
 * too, so the model sees either the old text or the new one [H4]. The present content again is answered again, whatever
 * the state [H3].
 */
@Injectable()
export class EditGate {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(Randomness) private readonly randomness: Randomness,
  ) {}

  /** @throws ButlerError not_found, turn_mismatch, turn_ended; UnavailableError: it may have happened, ask again */
  edit(request: EditRequest): Promise<Edited> {
    return this.database.transaction((tx) => this.editIn(tx, request));
  }

  private async editIn(tx: Tx, request: EditRequest): Promise<Edited> {
    const { account, turnId, content, by } = request;
    const turn = await this.turns.lock(tx, account, turnId);
    if (!turn) throw new ButlerError('not_found', 'There is no such turn in this session.', { turnId });
    assertMayAct(turn, request, request);
    const head = (await this.ledger.lockHead(tx, turn))!;
    const said = turn.contentSeq === null ? null : await this.ledger.eventAt(tx, turn, turn.contentSeq);
    const present = (said?.data as EventData['message.accepted'] | undefined)?.content;
    if (said && digestOf(present) === digestOf(content)) return { turn, events: [] };
    const { generation, state, kind } = turn;
    if (state !== 'queued' || kind === 'report') {
      const message = 'This message has been taken up, or is a report: it cannot be edited any more. Post another one.';
      throw new ButlerError('turn_ended', message, { turnId, generation, state });
    }
    const seq = head.nextSeq;
    const events = this.ledger.append(tx, head, {
      ...{ id: this.randomness.id(), writer: { kind: 'producer' }, activity: true },
      events: [{ type: 'message.edited', turn: { turnId, generation }, data: { content, by } }],
    });
    this.turns.edit(tx, turn, seq);
    return { turn, events };
  }
}
