import { Inject, Injectable } from '@nestjs/common';
import { ButlerError, type Content, type Event, type Id, type Ref, type SessionKey, StaleOwnerError } from '#protocol';
import { Database, Randomness, Settings, type Tx } from '#platform';
import { EventLedger } from '#event-ledger';
import { childTurnId, Family, Heads } from '#family';
import { type TurnRow, Turns } from '#turn-lifecycle';
import { digestOf } from './message-digest.js';
import { assertRoom } from './room.js';
import { sameMessage } from './same-message.js';

/** How deep turns may spawn: so many turns stand one below the other at most, the user's included. */
const DEPTH_MAX = 8;

/** A child that a running turn asks for. */
export interface SpawnRequest {
  parent: SessionKey & Ref;
  /** The owner's epoch under which the parent runs. */
  epoch: number;
  /** The tool call that spawns: the same call is the same child. */
  callId: Id;
  sessionId: Id;
  content: Content;
}

/** `events` are empty when the child had been spawned before. */
export interface Spawned {
  turn: TurnRow;
  events: { child: Event[]; parent: Event[] };
  /** The newest epoch that has claimed the session, where it was read. */
  ownerEpoch: number | undefined;
}

/**
 * Gate 2 for a child: one transaction that accepts it under its parent's path and tells both sessions (I3, I9).
 *
 * Holds every ancestor unstopped, so a stop comes either before, and then the child is refused, or after, and then it
 * covers the child [D1, D4]. A session first used by a spawn belongs to the spawner's session; another one is refused, so
 * that waits form a tree [E3].
 */
@Injectable()
export class SpawnGate {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(Family) private readonly family: Family,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(Settings) private readonly settings: Pick<Settings, 'queueMaxPending'>,
  ) {}

  /** @throws ButlerError turn_stopped, turn_mismatch, queue_full, validation_failed; StaleOwnerError; UnavailableError */
  spawn(request: SpawnRequest): Promise<Spawned> {
    return this.database.transaction((tx) => this.spawnIn(tx, request));
  }

  private async spawnIn(tx: Tx, request: SpawnRequest): Promise<Spawned> {
    const { parent, sessionId, content, callId, epoch } = request;
    const { account } = parent;
    const turnId = childTurnId(parent, callId);
    const { path } = (await this.turns.find(tx, account, parent.turnId))!;
    const above = (await this.family.holdUnstopped(tx, account, path)).at(-1)!;
    if (above.state !== 'running' || above.generation !== parent.generation) {
      throw new StaleOwnerError(`turn ${parent.turnId} does not run in generation ${parent.generation} any more`);
    }
    const digest = digestOf({ sessionId, content });
    const known = await this.turns.find(tx, account, turnId);
    if (known) {
      const turn = sameMessage(known, { sessionId, initiator: above.initiator ?? '' }, digest);
      return { turn, events: { child: [], parent: [] }, ownerEpoch: undefined };
    }
    const session = { account, sessionId };
    const heads = await Heads.lock(tx, this.ledger, [above, session]);
    const head = heads.of(session);
    assertInFamily(above, head, sessionId);
    assertRoom(session, await this.turns.countQueued(tx, session), this.settings);
    if (head.isNew) head.spawnedBy = above.sessionId;
    const from = { sessionId: above.sessionId, turnId: above.turnId, generation: above.generation };
    const told = this.ledger.append(tx, heads.of(above), {
      ...{ id: this.randomness.id(), writer: { kind: 'owner', epoch } },
      events: [{ type: 'child.spawned', turn: from, data: { callId, child: { sessionId, turnId, generation: 1 } } }],
    });
    const said = { mode: 'enqueue', kind: 'user', initiator: above.initiator ?? '' } as const;
    const turn = this.turns.insert(
      tx,
      { account, sessionId, turnId, parent: from, path: `${path}/${turnId}`, ...said, metadata: null, digest },
      { seq: head.nextSeq, nowMs: head.nowMs },
    );
    const accepted = this.ledger.append(tx, head, {
      ...{ id: this.randomness.id(), writer: { kind: 'producer' }, activity: true },
      events: [{ type: 'message.accepted', turn: { turnId, generation: 1 }, data: { content, ...said, parent: from } }],
    });
    return { turn, events: { child: accepted, parent: told }, ownerEpoch: head.ownerEpoch };
  }
}

/** @throws ButlerError validation_failed */
function assertInFamily(parent: TurnRow, head: { isNew: boolean; spawnedBy: Id | null }, sessionId: Id): void {
  const refuse = (message: string): ButlerError => new ButlerError('validation_failed', message, { sessionId });
  if (parent.path.split('/').length >= DEPTH_MAX) throw refuse(`Turns may stand ${DEPTH_MAX} deep, no deeper.`);
  if (!head.isNew && head.spawnedBy !== parent.sessionId) {
    throw refuse('This session is in use by others. Spawn into a session of your own, or into a new one.');
  }
}
