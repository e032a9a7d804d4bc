import { Inject, Injectable } from '@nestjs/common';
import { ButlerError, type Event, type Id, isTerminal, type Ref, type SessionKey, type TurnState } from '#protocol';
import { Database, Randomness, type Tx } from '#platform';
import { EventLedger } from '#event-ledger';
import { type Decided, Family, Heads, isReservedTurnId, type Reported } from '#family';
import { type StopOrder, type TurnRow, Turns } from '#turn-lifecycle';
import { type Actor, assertMayAct, staleGeneration } from './identity.js';

/** A stop as a caller asks for it, validated. */
export interface StopRequest extends SessionKey, Actor {
  turnId: Id;
  /** Null: the present one. */
  generation: number | null;
  reason: string | null;
}

/** What gate 1 has decided. `already`: this call changed nothing on the target itself. */
export interface Stopped {
  ref: Ref;
  state: TurnState;
  already: boolean;
  /** The target, where this call changed it, and the descendants that were stopped with it. */
  decided: Decided[];
  /** The report of a child that this call has ended. */
  reported: Reported | null;
}

/** What attempts at the transaction share. */
interface Passage {
  request: StopRequest;
  appendId: string;
  /** The nextSeq that the first attempt saw: its own append can only stand at or behind it. */
  firstSeq: number | null;
}

/**
 * Gate 1, the one and only way to stop a turn: decided in one transaction, with all its live descendants (I5, I6, I9).
 *
 * An unborn turn becomes a tombstone, which its message meets: a user's for messages of their own, an admin's for
 * anybody's. A queued one ends here. A running one is marked, and ends at its next safe point. One that has ended stays as
 * it is; named with the next generation, it moves there as stopped, so that a retry on its way meets the stop [G2].
 */
@Injectable()
export class StopGate {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(Family) private readonly family: Family,
    @Inject(Randomness) private readonly randomness: Randomness,
  ) {}

  /** @throws ButlerError turn_mismatch, stale_generation; UnavailableError: it may have happened, ask again */
  stop(request: StopRequest): Promise<Stopped> {
    const passage: Passage = { request, appendId: this.randomness.id(), firstSeq: null };
    return this.database.transaction((tx) => this.stopIn(tx, passage));
  }

  private async stopIn(tx: Tx, passage: Passage): Promise<Stopped> {
    const { request } = passage;
    const { account, turnId } = request;
    const seen = await this.turns.find(tx, account, turnId);
    if (!seen) return this.stopUnborn(tx, passage);
    assertMayAct(seen, request, request);
    const parent = await this.family.holdParent(tx, seen);
    const row = (await this.turns.lock(tx, account, turnId))!;
    const below = await this.turns.lockLiveBelow(tx, account, row.path);
    const heads = await Heads.lock(tx, this.ledger, [row, ...below, ...(parent ? [parent] : [])]);
    const standing = await this.standing(tx, heads, passage);
    const target = standing ?? this.stopTarget(tx, heads, row, passage);
    const hasEnded = !standing && target?.state === 'stopped';
    const reported = hasEnded ? await this.family.report(tx, heads, parent, row, { state: 'stopped', text: '' }) : null;
    const ref = { turnId, generation: row.generation };
    const others = this.family.stopBelow(tx, heads, below, { ...orderOf(request), via: ref });
    return { ref, state: row.state, already: !target, decided: [...(target ? [target] : []), ...others], reported };
  }

  private async stopUnborn(tx: Tx, passage: Passage): Promise<Stopped> {
    const { request, appendId } = passage;
    const { account, sessionId, turnId, generation } = request;
    if ((generation ?? 1) !== 1) throw staleGeneration(turnId, null);
    if (isReservedTurnId(turnId)) {
      throw new ButlerError('turn_mismatch', 'No such child has been spawned. Stop the turn that would spawn it.', {
        turnId,
      });
    }
    const session = { account, sessionId };
    const head = await this.ledger.openHead(tx, session);
    passage.firstSeq ??= head.nextSeq;
    const ref = { turnId, generation: 1 };
    const stop = orderOf(request);
    const events = this.ledger.append(tx, head, {
      ...{ id: appendId, writer: { kind: 'producer' }, activity: true },
      events: [{ type: 'turn.stopped', turn: ref, data: { ...stop, gate: 'stop' } }],
    });
    const initiator = request.isAdmin ? null : request.by;
    this.turns.insertTombstone(tx, { ...session, turnId, initiator }, { nowMs: head.nowMs, stop });
    return {
      ref,
      state: 'stopped',
      already: false,
      decided: [{ session, ref, state: 'stopped', events }],
      reported: null,
    };
  }

  /** What an earlier attempt of this very call has committed without our hearing of it. */
  private async standing(tx: Tx, heads: Heads, passage: Passage): Promise<Decided | null> {
    const { account, sessionId } = passage.request;
    const session = { account, sessionId };
    const head = heads.of(session);
    const { firstSeq } = passage;
    passage.firstSeq ??= head.nextSeq;
    if (!tx.uncertain) return null;
    const [event, ...more] = await this.ledger.appended(tx, head, passage.appendId, firstSeq ?? 1);
    return event ? decidedBy(session, event, [event, ...more]) : null;
  }

  private stopTarget(tx: Tx, heads: Heads, row: TurnRow, { request, appendId }: Passage): Decided | null {
    const { turnId } = request;
    const named = request.generation ?? row.generation;
    const head = heads.of(row);
    const stop = orderOf(request);
    if (named === row.generation) {
      if (isTerminal(row.state) || row.state === 'stop_requested') return null;
      return this.family.stop(tx, head, row, stop, appendId);
    }
    if (named !== row.generation + 1 || !isTerminal(row.state)) throw staleGeneration(turnId, row);
    const ref = { turnId, generation: named };
    const events = this.ledger.append(tx, head, {
      ...{ id: appendId, writer: { kind: 'producer' }, activity: true },
      events: [{ type: 'turn.stopped', turn: ref, data: { ...stop, gate: 'stop' } }],
    });
    this.turns.stopAhead(tx, row, { nowMs: head.nowMs, stop });
    const { account, sessionId } = row;
    return { session: { account, sessionId }, ref, state: 'stopped', events };
  }
}

function orderOf({ by, reason }: StopRequest): StopOrder {
  return reason === null ? { by } : { by, reason };
}

function decidedBy(session: SessionKey, event: Event, events: Event[]): Decided {
  const ref = { turnId: event.turnId!, generation: event.generation! };
  return { session, ref, state: event.type === 'turn.stopped' ? 'stopped' : 'stop_requested', events };
}
