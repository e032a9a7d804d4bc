import { Inject, Injectable } from '@nestjs/common';
import {
  afterMove,
  type Event,
  type EventDraft,
  isTerminal,
  type Ref,
  type RunOutcome,
  sessionName,
  type TerminalState,
  type TurnMove,
} from '#protocol';
import { Clock, Database, Randomness, StepPoints, type Tx } from '#platform';
import { EventLedger, LiveEvents, type SessionHead } from '#event-ledger';
import { Family, Heads, Reports, type Reported } from '#family';
import type { Lease } from '#session-lock';
import { type TurnRow, Turns } from '#turn-lifecycle';
import type { AttemptExit } from './attempt-exit.js';
import { untilAnswered } from './ledger-outage.js';
import type { Started } from './start-gate.js';
import { interruptedResults, stopFacts, type TurnEnd } from './turn-end.js';
import type { TurnProgress } from './turn-progress.js';

interface Ending {
  lease: Lease;
  ref: Ref;
  end: TurnEnd;
  progress: TurnProgress;
  appendId: string;
  firstSeq: number | null;
}

interface Ended {
  outcome: RunOutcome;
  events: Event[];
  /** Decided by this very transaction. */
  isNews: boolean;
  reported: Reported | null;
}

/**
 * Ends a turn: its last events and its terminal state in one fenced transaction (I7). Ending again, and ending what
 * somebody else has ended, changes nothing and answers the state that stands. A turn whose stop was requested ends as
 * stopped, whichever way its work came out (I5). A child's report to its parent is written with its end [K3].
 */
@Injectable()
export class Finish {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(Family) private readonly family: Family,
    @Inject(Reports) private readonly reports: Reports,
    @Inject(LiveEvents) private readonly live: LiveEvents,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(StepPoints) private readonly steps: StepPoints,
  ) {}

  /**
   * @param progress what is recorded: calls without a result are closed as interrupted. Nothing else of this turn may be
   *   on its way to the ledger.
   * @throws LeaveSignal when the attempt may not write any more; StaleOwnerError when the ledger refuses it
   */
  async end(lease: Lease, started: Started, end: TurnEnd, exit: AttemptExit): Promise<RunOutcome> {
    const { ref, progress, isChild } = started;
    const ending: Ending = { lease, ref, end, progress, appendId: this.randomness.id(), firstSeq: null };
    const { outcome, events, reported } = await untilAnswered(
      { clock: this.clock, randomness: this.randomness },
      exit.hard,
      async (unclear) => {
        await this.steps.reach('finish.before', { turnId: ref.turnId });
        exit.assertMayRecord();
        const held = this.steps.reach('finish.checked', { turnId: ref.turnId });
        if (held) await held;
        if (isChild) return this.database.transaction((tx) => this.endChildIn(tx, ending, unclear));
        return this.database.together((tx) => this.endIn(tx, ending, unclear), {
          lane: sessionName(lease.session),
          bytes: 0,
        });
      },
    );
    await this.steps.reach('finish.committed', { turnId: ref.turnId, outcome: outcome.kind });
    this.live.committed(lease.session, events);
    await this.reports.deliver(reported);
    return outcome;
  }

  private async endIn(tx: Tx, ending: Ending, unclear: boolean): Promise<Ended> {
    const { lease, ref } = ending;
    const [row, head] = await Promise.all([
      this.turns.lock(tx, lease.session.account, ref.turnId),
      this.ledger.lockHead(tx, lease.session),
    ]);
    return this.decide(tx, { row, head }, ending, unclear);
  }

  /** The parent's row comes before the child's, and both sessions' rows behind them. */
  private async endChildIn(tx: Tx, ending: Ending, unclear: boolean): Promise<Ended> {
    const { lease, ref } = ending;
    const { account } = lease.session;
    const parent = await this.family.holdParent(tx, await this.turns.find(tx, account, ref.turnId));
    const row = await this.turns.lock(tx, account, ref.turnId);
    const heads = await Heads.lock(tx, this.ledger, [lease.session, ...(parent ? [parent] : [])]);
    const ended = await this.decide(tx, { row, head: heads.of(lease.session) }, ending, unclear);
    if (!ended.isNews) return ended;
    const { end, progress } = ending;
    const state = row!.state as TerminalState;
    const text = state === 'failed' && end.kind === 'fail' ? end.error.message : progress.lastWords;
    return { ...ended, reported: await this.family.report(tx, heads, parent, row!, { state, text }) };
  }

  private async decide(
    tx: Tx,
    { row, head }: { row: TurnRow | null; head: SessionHead | null },
    ending: Ending,
    unclear: boolean,
  ): Promise<Ended> {
    const { lease, ref, progress } = ending;
    if (!row || !head || row.generation !== ref.generation) return stands({ kind: 'dropped' }, []);
    if (isTerminal(row.state)) {
      const events = await this.ownAppend(tx, head, ending, unclear);
      return stands({ kind: 'ended', state: row.state }, events);
    }
    ending.firstSeq ??= head.nextSeq;
    const { end } = ending;
    if (end.kind === 'stop' && row.state !== 'stop_requested') throw new Error('a turn was stopped without a request');
    const move: TurnMove = end.kind === 'fail' ? 'fail' : 'complete';
    const error = end.kind === 'fail' && row.state === 'running' ? { error: end.error } : {};
    const state = afterMove(row.state, move) as TerminalState;
    // The append comes first: it may be refused, and then nothing is left to be written.
    const events = this.ledger.append(tx, head, {
      id: ending.appendId,
      writer: { kind: 'owner', epoch: lease.owner.epoch },
      events: [...interruptedResults(ref, progress.openCalls), lastEvent(row, ref, state, end)],
      activity: true,
    });
    this.turns.move(tx, row, move, { nowMs: head.nowMs, ...error });
    return { outcome: { kind: 'ended', state }, events, isNews: true, reported: null };
  }

  private async ownAppend(
    tx: Tx,
    head: SessionHead,
    { appendId, firstSeq }: Ending,
    unclear: boolean,
  ): Promise<Event[]> {
    if (firstSeq === null || !(tx.uncertain || unclear)) return [];
    return this.ledger.appended(tx, head, appendId, firstSeq);
  }
}

function lastEvent(row: TurnRow, turn: Ref, state: TerminalState, end: TurnEnd): EventDraft {
  if (state === 'stopped') return { type: 'turn.stopped', turn, data: { ...stopFacts(row), gate: 'running' } };
  if (end.kind === 'fail') return { type: 'turn.failed', turn, data: end.error };
  return { type: 'turn.completed', turn, data: end.kind === 'complete' && end.usage ? { usage: end.usage } : {} };
}

function stands(outcome: RunOutcome, events: Event[]): Ended {
  return { outcome, events, isNews: false, reported: null };
}
