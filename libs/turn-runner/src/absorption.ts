import { Inject, Injectable } from '@nestjs/common';
import { type Event, type EventDraft, type Ref, sameRef, type TurnState } from '#protocol';
import { Clock, Database, Randomness, StepPoints, type Tx } from '#platform';
import { EventLedger, LiveEvents } from '#event-ledger';
import type { Lease } from '#session-lock';
import { type LiveTurn, type TurnRow, Turns } from '#turn-lifecycle';
import type { AttemptExit } from './attempt-exit.js';
import { untilAnswered } from './ledger-outage.js';

interface Passage {
  lease: Lease;
  ref: Ref;
  appendId: string;
  /** The nextSeq that the first attempt saw: its own append can only stand at or behind it. */
  firstSeq: number | null;
}

/**
 * Takes steering messages that wait into the turn that runs: one fenced transaction that also ends them, so each reaches
 * the model once, here or as a turn of its own, never both (I2, I3, I4). A report is taken in by its parent only, in the
 * generation that it was sent to (I8). Called where no tool call is open.
 */
@Injectable()
export class Absorption {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(LiveEvents) private readonly live: LiveEvents,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(StepPoints) private readonly steps: StepPoints,
  ) {}

  /** @throws LeaveSignal when the attempt is over; StaleOwnerError when the ledger refuses it */
  async absorb(lease: Lease, ref: Ref, exit: AttemptExit): Promise<void> {
    const deps = { clock: this.clock, randomness: this.randomness };
    const line = await untilAnswered(deps, exit.signal, async () => {
      exit.assertMayBegin();
      return exit.race(this.turns.live(this.database, lease.session));
    });
    if (!line.some(mayJoin)) return;
    const passage: Passage = { lease, ref, appendId: this.randomness.id(), firstSeq: null };
    const { state, events } = await untilAnswered(deps, exit.hard, async (unclear) => {
      await this.steps.reach('absorb.before', { turnId: ref.turnId });
      exit.assertMayRecord();
      return this.database.transaction((tx) => this.absorbIn(tx, passage, unclear));
    });
    await this.steps.reach('absorb.committed', { turnId: ref.turnId });
    this.live.committed(lease.session, events);
    if (state === 'stop_requested') throw exit.leave({ kind: 'stop' });
  }

  private async absorbIn(tx: Tx, passage: Passage, unclear: boolean): Promise<{ state: TurnState; events: Event[] }> {
    const { lease, ref, appendId, firstSeq } = passage;
    const line = await this.turns.live(tx, lease.session);
    const own = line.find((turn) => sameRef(turn, ref));
    const rows = await this.lockInOrder(tx, [...(own ? [own] : []), ...line.filter(mayJoin)]);
    const head = (await this.ledger.lockHead(tx, lease.session))!;
    passage.firstSeq ??= head.nextSeq;
    const state = rows.find((row) => sameRef(row, ref))?.state ?? 'stopped';
    if (firstSeq !== null && (tx.uncertain || unclear)) {
      const standing = await this.ledger.appended(tx, head, appendId, firstSeq);
      if (standing.length > 0) return { state, events: standing };
    }
    const joining = state === 'running' ? rows.filter((row) => joins(row, ref)) : [];
    const events = this.ledger.append(tx, head, {
      id: appendId,
      writer: { kind: 'owner', epoch: lease.owner.epoch },
      events: joining.map(({ turnId, generation }): EventDraft => {
        return { type: 'turn.absorbed', turn: { turnId, generation }, data: { absorbedBy: ref } };
      }),
    });
    for (const row of joining) this.turns.move(tx, row, 'absorb', { nowMs: head.nowMs, absorbedBy: ref });
    return { state, events };
  }

  /** One row at a time, by path: the one lock order. Afterwards by queueSeq, as they were said. */
  private async lockInOrder(tx: Tx, turns: readonly LiveTurn[]): Promise<TurnRow[]> {
    const rows: TurnRow[] = [];
    for (const { session, turnId } of turns.toSorted((a, b) => (a.path < b.path ? -1 : 1))) {
      const row = await this.turns.lock(tx, session.account, turnId);
      if (row) rows.push(row);
    }
    return rows.sort((a, b) => (a.queueSeq ?? 0) - (b.queueSeq ?? 0));
  }
}

function mayJoin({ mode, state }: LiveTurn): boolean {
  return mode === 'steer' && state === 'queued';
}

function joins(row: TurnRow, ref: Ref): boolean {
  if (row.mode !== 'steer' || row.state !== 'queued') return false;
  return row.kind !== 'report' || (row.parent !== null && sameRef(row.parent, ref));
}
