import { Inject, Injectable } from '@nestjs/common';
import {
  ButlerError,
  type Content,
  type Event,
  type Id,
  type Kind,
  type Meta,
  type Mode,
  type SessionKey,
  sessionName,
} from '#protocol';
import { Database, Randomness, Settings, type Tx } from '#platform';
import { EventLedger } from '#event-ledger';
import { type TurnRow, Turns } from '#turn-lifecycle';
import { digestOf } from './message-digest.js';
import { assertRoom } from './room.js';
import { sameMessage } from './same-message.js';

/** A message as a producer hands it in, validated. `turnId` null: the server chooses. */
export interface PostedMessage extends SessionKey {
  initiator: string;
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
  /** The newest epoch that has claimed the session. */
  ownerEpoch: number;
}

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
    const turnId = message.turnId ?? this.randomness.id();
    const { account, sessionId, initiator, content, mode, metadata, kind = 'user' } = message;
    const digest = digestOf({ sessionId, initiator, content, mode, metadata });
    const appendId = this.randomness.id();
    // An id of the server's own choice is new unless an earlier attempt of this very call has committed.
    let mayBeKnown = message.turnId !== null;
    const data = { content, mode, kind, initiator, ...(metadata && { metadata }) };
    return this.database.together(
      async (tx) => {
        const [known, head, queued] = await Promise.all([
          mayBeKnown ? this.turns.find(tx, account, turnId) : null,
          this.ledger.openHead(tx, message),
          this.turns.countQueued(tx, message),
        ]);
        mayBeKnown = true;
        const { ownerEpoch } = head;
        if (known) return { turn: sameMessage(known, message, digest), events: [], ownerEpoch };
        await this.checkRoom(tx, message, queued);
        const turn = this.turns.insert(
          tx,
          { account, sessionId, turnId, initiator, mode, kind, metadata, digest, parent: null, path: turnId },
          { seq: head.nextSeq, nowMs: head.nowMs },
        );
        const events = this.ledger.append(tx, head, {
          id: appendId,
          writer: { kind: 'producer' },
          activity: true,
          events: [{ type: 'message.accepted', turn: { turnId, generation: 1 }, data }],
        });
        return { turn, events, ownerEpoch };
      },
      { lane: sessionName(message), bytes: messageBytes(content) },
    );
  }

  private async checkRoom(tx: Tx, message: PostedMessage, queued: number): Promise<void> {
    const { sessionId } = message;
    if (message.mode === 'reject' && (queued > 0 || (await this.turns.live(tx, message)).length > 0)) {
      throw new ButlerError('session_busy', 'A turn of this session runs or waits. Post again when it has ended.', {
        sessionId,
      });
    }
    assertRoom(message, queued, this.settings);
  }
}

/** About what the message takes in a statement: UTF-8 needs up to three bytes for a UTF-16 unit. */
function messageBytes(content: Content): number {
  return typeof content === 'string' ? content.length * 3 : JSON.stringify(content).length * 3;
}
