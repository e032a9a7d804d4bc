import { Inject, Injectable } from '@nestjs/common';
import {
  ButlerError,
  type Event,
  type EventDraft,
  type Id,
  type Ref,
  type SessionKey,
  type SRef,
  type TurnState,
} from '#protocol';
import { Randomness, type Tx } from '#platform';
import { EventLedger, type SessionHead } from '#event-ledger';
import { type StopOrder, type TurnRow, Turns } from '#turn-lifecycle';
import { reportTurnId } from './child-ids.js';
import { Heads } from './heads.js';
import { type ChildEnd, reportContent } from './report-content.js';

/** What a transaction has decided of one turn, for its watchers and its record. */
export interface Decided {
  session: SessionKey;
  ref: Ref;
  state: TurnState;
  events: Event[];
}

/** A report that has been put in line for the parent. */
export interface Reported {
  turn: TurnRow;
  events: Event[];
  ownerEpoch: number;
}

/**
 * What concerns a turn and its kin inside one transaction: its ancestors' word, the stop of its descendants, the report
 * to its parent.
 *
 * Lock order: ancestors shared, the highest first; the turn itself; its live descendants in path order; then all sessions
 * in sorted order. Keeps I8 and I9. Transactions with kin are never in a group: their locks come one after the other.
 */
@Injectable()
export class Family {
  constructor(
    @Inject(Turns) private readonly turns: Turns,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(Randomness) private readonly randomness: Randomness,
  ) {}

  /**
   * Locks the turns that a path names, shared, so that none of them is stopped until the transaction ends.
   * @throws ButlerError turn_stopped when one of them is stopped or is to stop
   */
  async holdUnstopped(tx: Tx, account: Id, path: string): Promise<TurnRow[]> {
    const rows: TurnRow[] = [];
    for (const turnId of path.split('/')) {
      const row = await this.turns.lockShared(tx, account, turnId);
      if (!row || row.state === 'stopped' || row.state === 'stop_requested') {
        throw new ButlerError('turn_stopped', 'A turn above this one was stopped. Retry that one first.', { turnId });
      }
      rows.push(row);
    }
    return rows;
  }

  /** The parent of a child that may end in this transaction, locked shared: before the child itself. */
  async holdParent(tx: Tx, child: TurnRow | null): Promise<TurnRow | null> {
    return child && reports(child) ? this.turns.lockShared(tx, child.account, child.parent.turnId) : null;
  }

  /**
   * Stops live descendants, locked, because the turn `via` above them was stopped or retried. One whose stop was requested
   * before is on its end already; from now on it tells nobody: its report would live below the turn that was stopped.
   */
  stopBelow(tx: Tx, heads: Heads, below: readonly TurnRow[], stop: StopOrder & { via: Ref }): Decided[] {
    for (const row of below) if (row.state === 'stop_requested') this.turns.noteStopAbove(tx, row, stop.via);
    return below
      .filter(({ state }) => state !== 'stop_requested')
      .map((row) => this.stop(tx, heads.of(row), row, stop, this.randomness.id()));
  }

  /** Stops one live turn, locked: at once where it has not started, else at its next safe point. */
  stop(tx: Tx, head: SessionHead, row: TurnRow, stop: StopOrder, appendId: string): Decided {
    const { account, sessionId, turnId, generation } = row;
    const ref = { turnId, generation };
    const state = this.turns.move(tx, row, 'stop', { nowMs: head.nowMs, stop });
    const event: EventDraft =
      state === 'stopped'
        ? { type: 'turn.stopped', turn: ref, data: { ...stop, gate: 'stop' } }
        : { type: 'turn.stop_requested', turn: ref, data: stop };
    const append = { id: appendId, writer: { kind: 'producer' }, events: [event], activity: true } as const;
    return { session: { account, sessionId }, ref, state, events: this.ledger.append(tx, head, append) };
  }

  /**
   * Puts the report of a child that ends in line for its parent. None is due when the parent is stopped, is to stop or is
   * in another generation, when the child was stopped through an ancestor, or when it has reported before [K2].
   */
  async report(tx: Tx, heads: Heads, parent: TurnRow | null, child: TurnRow, end: ChildEnd): Promise<Reported | null> {
    if (!parent || !reports(child) || !listens(parent, child.parent) || child.stop?.via) return null;
    const { account, sessionId } = parent;
    const turnId = reportTurnId(child.turnId);
    if (await this.turns.find(tx, account, turnId)) return null;
    const head = heads.of(parent);
    const from = { sessionId: child.sessionId, turnId: child.turnId, generation: child.generation };
    const { content, text } = reportContent(from, end);
    const said = { mode: 'steer', kind: 'report', initiator: child.initiator ?? '' } as const;
    const turn = this.turns.insert(
      tx,
      {
        ...{ account, sessionId, turnId, parent: child.parent, path: `${parent.path}/${turnId}` },
        ...{ ...said, metadata: null, digest: 'report' },
      },
      { seq: head.nextSeq, nowMs: head.nowMs },
    );
    const above = { turnId: parent.turnId, generation: parent.generation };
    const data = { content, ...said, parent: child.parent };
    const events = this.ledger.append(tx, head, {
      id: this.randomness.id(),
      writer: { kind: 'producer' },
      activity: true,
      events: [
        { type: 'message.accepted', turn: { turnId, generation: 1 }, data },
        { type: 'child.reported', turn: above, data: { child: from, state: end.state, text } },
      ],
    });
    return { turn, events, ownerEpoch: head.ownerEpoch };
  }
}

/** Whether a turn tells its parent how it ended; a report itself does not. */
function reports(turn: TurnRow): turn is TurnRow & { parent: SRef } {
  return turn.parent !== null && turn.kind !== 'report';
}

function listens(parent: TurnRow, as: SRef): boolean {
  return parent.generation === as.generation && parent.state !== 'stopped' && parent.state !== 'stop_requested';
}
