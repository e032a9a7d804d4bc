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
} from '#protocol';
import { Database, Randomness, Settings, type Tx } from '#platform';
import { EventLedger } from '#event-ledger';
import { type TurnRow, Turns } from '#turn-lifecycle';
import { digestOf } from './message-digest.js';

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
}

/**
 * Gate 2: one transaction that accepts a message or finds that it was accepted before. Lock order: the turn's row, then
 * the session's. Keeps I2 (the order is the seq of `message.accepted`), I3 and I8.
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
    const { account, sessionId, initiator, content, mode, metadata } = message;
    const digest = digestOf({ sessionId, initiator, content, mode, metadata });
    const appendId = this.randomness.id();
    // An id of the server's own choice is new unless an earlier attempt of this very call has committed.
    let mayBeKnown = message.turnId !== null;
    return this.database.transaction(async (tx) => {
      const known = mayBeKnown ? await this.turns.find(tx, account, turnId) : null;
      mayBeKnown = true;
      if (known) return { turn: sameMessage(known, digest), events: [] };
      await this.turns.insert(tx, {
        ...{ account, sessionId, turnId, initiator, mode, metadata, digest },
        parent: null,
        path: turnId,
        kind: message.kind ?? 'user',
      });
      return this.place(tx, message, turnId, appendId);
    });
  }

  /** Gives the inserted turn its place in the session's order, under the session row's lock. */
  private async place(tx: Tx, message: PostedMessage, turnId: Id, appendId: string): Promise<Admission> {
    const { account, initiator, content, mode, metadata } = message;
    const kind = message.kind ?? 'user';
    const head = await this.ledger.openHead(tx, message);
    await this.checkRoom(tx, message);
    const events = await this.ledger.append(tx, head, {
      id: appendId,
      writer: { kind: 'producer' },
      activity: true,
      events: [
        {
          type: 'message.accepted',
          turn: { turnId, generation: 1 },
          data: { content, mode, kind, initiator, ...(metadata && { metadata }) },
        },
      ],
    });
    await this.turns.place(tx, { account, turnId }, events[0]!.seq, head.nowMs);
    const turn = await this.turns.find(tx, account, turnId);
    return { turn: turn!, events };
  }

  /** The turn just inserted has no place yet, so it is not counted. */
  private async checkRoom(tx: Tx, message: PostedMessage): Promise<void> {
    const { sessionId } = message;
    if (message.mode === 'reject' && (await this.turns.live(tx, message)).length > 0) {
      throw new ButlerError('session_busy', 'A turn of this session runs or waits. Post again when it has ended.', {
        sessionId,
      });
    }
    if ((await this.turns.countQueued(tx, message)) >= this.settings.queueMaxPending) {
      throw new ButlerError(
        'queue_full',
        `${this.settings.queueMaxPending} messages wait in this session already. Post again when some have run.`,
        { sessionId, retryAfterS: QUEUE_FULL_RETRY_S },
      );
    }
  }
}

const QUEUE_FULL_RETRY_S = 5;

function sameMessage(known: TurnRow, digest: string): TurnRow {
  const { turnId } = known;
  if (known.digest === digest) return known;
  if (known.acceptedSeq === null) {
    throw new ButlerError('turn_stopped', 'This turn was stopped before its message came. Post under another turnId.', {
      turnId,
    });
  }
  throw new ButlerError(
    'turn_mismatch',
    'This turnId was used for another session, initiator or content. Post under another turnId.',
    { turnId },
  );
}
