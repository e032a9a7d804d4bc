import { Inject, Injectable } from '@nestjs/common';
import {
  afterMove,
  type Event,
  type EventDraft,
  type Id,
  isTerminal,
  type Ref,
  type RunOutcome,
  sessionName,
  type TerminalState,
  type TurnMove,
} from '#protocol';
import { Clock, Database, Randomness, StepPoints, type Tx } from '#platform';
import { EventLedger, LiveEvents, type SessionHead } from '#event-ledger';
import type { Lease } from '#session-lock';
import { type TurnRow, Turns } from '#turn-lifecycle';
import type { AttemptExit } from './attempt-exit.js';
import { untilAnswered } from './ledger-outage.js';
import { interruptedResults, stopFacts, type TurnEnd } from './turn-end.js';

interface Ending {
  lease: Lease;
  ref: Ref;
  end: TurnEnd;
  openCalls: readonly Id[];
  appendId: string;
  firstSeq: number | null;
}

/**
 * Ends a turn: its last events and its terminal state in one fenced transaction (I7). Ending again, and ending what
 * somebody else has ended, changes nothing and answers the state that stands. A turn whose stop was requested ends as
 * stopped, whichever way its work came out (I5).
 */
@Injectable()
export class Finish {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(LiveEvents) private readonly live: LiveEvents,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(StepPoints) private readonly steps: StepPoints,
  ) {}

  /**
   * @param openCalls calls without a result; they are closed as interrupted. Nothing else of this turn may be on its way
   *   to the ledger.
   * @throws LeaveSignal when the attempt may not write any more; StaleOwnerError when the ledger refuses it
   */
  async end(lease: Lease, ref: Ref, end: TurnEnd, openCalls: readonly Id[], exit: AttemptExit): Promise<RunOutcome> {
    const ending: Ending = { lease, ref, end, openCalls, appendId: this.randomness.id(), firstSeq: null };
    const { outcome, events } = await untilAnswered(
      { clock: this.clock, randomness: this.randomness },
      exit.hard,
      async (unclear) => {
        await this.steps.reach('finish.before', { turnId: ref.turnId });
        exit.assertMayRecord();
        const held = this.steps.reach('finish.checked', { turnId: ref.turnId });
        if (held) await held;
        return this.database.together((tx) => this.endIn(tx, ending, unclear), {
          lane: sessionName(lease.session),
          bytes: 0,
        });
      },
    );
    await this.steps.reach('finish.committed', { turnId: ref.turnId, outcome: outcome.kind });
    this.live.committed(lease.session, events);
    return outcome;
  }

  private async endIn(tx: Tx, ending: Ending, unclear: boolean): Promise<{ outcome: RunOutcome; events: Event[] }> {
    const { lease, ref } = ending;
    const [row, head] = await Promise.all([
      this.turns.lock(tx, lease.session.account, ref.turnId),
      this.ledger.lockHead(tx, lease.session),
    ]);
    if (!row || !head || row.generation !== ref.generation) return { outcome: { kind: 'dropped' }, events: [] };
    if (isTerminal(row.state)) {
      const events = await this.ownAppend(tx, head, ending, unclear);
      return { outcome: { kind: 'ended', state: row.state }, events };
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
      events: [...interruptedResults(ref, ending.openCalls), lastEvent(row, ref, state, end)],
      activity: true,
    });
    this.turns.move(tx, row, move, { nowMs: head.nowMs, ...error });
    return { outcome: { kind: 'ended', state }, events };
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
