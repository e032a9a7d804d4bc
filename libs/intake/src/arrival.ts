import type { Content, Event, EventData, Id, Kind, Meta, Mode, Ref, SessionKey } from '#protocol';
import type { Randomness, Tx } from '#platform';
import type { EventLedger, SessionHead } from '#event-ledger';
import type { Decided } from '#family';
import type { TurnRow, Turns } from '#turn-lifecycle';
import { digestOf } from './message-digest.js';

/** A message as a producer hands it in, validated. `turnId` null: the server chooses. */
export interface PostedMessage extends SessionKey {
  initiator: string;
  /** May interrupt turns of others. */
  isAdmin?: boolean;
  turnId: Id | null;
  content: Content;
  mode: Mode;
  kind?: Kind;
  metadata: Meta | null;
}

/** The turn as it stands, and what this call has written: nothing, when the message was accepted before. */
export interface Admission {
  turn: TurnRow;
  events: Event[];
  /** The newest epoch that has claimed the session, where it was read. */
  ownerEpoch: number | undefined;
  /** The turns that an interrupting message has stopped. */
  decided: Decided[];
}

/** A message on its way through gate 2: what every attempt at its transaction has in common. */
export class Arrival {
  readonly turnId: Id;
  readonly digest: string;
  readonly appendId: string;
  /** An id of the server's own choice is new unless an earlier attempt of this very call has committed. */
  mayBeKnown: boolean;

  constructor(
    readonly message: PostedMessage,
    randomness: Randomness,
  ) {
    const { sessionId, initiator, content, mode, metadata, turnId } = message;
    this.turnId = turnId ?? randomness.id();
    this.mayBeKnown = turnId !== null;
    this.digest = digestOf({ sessionId, initiator, content, mode, metadata });
    this.appendId = randomness.id();
  }

  /** Puts the message in line, under its session's head. */
  accept(tx: Tx, head: SessionHead, { turns, ledger }: { turns: Turns; ledger: EventLedger }, interrupts?: Ref) {
    const { turnId, digest, appendId } = this;
    const { account, sessionId, initiator, content, mode, metadata, kind = 'user' } = this.message;
    const turn = turns.insert(
      tx,
      { account, sessionId, turnId, initiator, mode, kind, metadata, digest, parent: null, path: turnId },
      { seq: head.nextSeq, nowMs: head.nowMs },
    );
    const data: EventData['message.accepted'] = {
      ...{ content, mode, kind, initiator },
      ...(metadata && { metadata }),
      ...(interrupts && { interrupts }),
    };
    const events = ledger.append(tx, head, {
      ...{ id: appendId, writer: { kind: 'producer' }, activity: true },
      events: [{ type: 'message.accepted', turn: { turnId, generation: 1 }, data }],
    });
    return { turn, events, ownerEpoch: head.ownerEpoch };
  }
}
