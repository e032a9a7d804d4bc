import { Inject, Injectable } from '@nestjs/common';
import {
  type Content,
  type Event,
  type EventData,
  type EventDraft,
  isTerminal,
  type Ref,
  type RunOutcome,
  sessionName,
  StaleOwnerError,
  type TurnError,
} from '#protocol';
import { Clock, Database, Randomness, Settings, StepPoints, type Tx, UnavailableError } from '#platform';
import { EventLedger, LiveEvents, type SessionHead } from '#event-ledger';
import type { Lease } from '#session-lock';
import { type TurnRow, Turns } from '#turn-lifecycle';
import { untilAnswered } from './ledger-outage.js';
import { interruptedResults, stopFacts } from './turn-end.js';
import { TurnProgress } from './turn-progress.js';

/** The turn may run: `progress` is what earlier attempts have recorded, this one's start included. */
export interface Started {
  kind: 'started';
  content: Content;
  progress: TurnProgress;
  /** Its stop has been requested since it started: it only has to be ended. */
  stopRequested: boolean;
}

/** The turn's earlier events, read outside the transaction. */
interface Recorded {
  events: Event[];
  /** Everything of the session up to this seq has been looked at. */
  upTo: number;
}

/** One passage through the gate; what its attempts at the transaction share. */
interface Passage {
  lease: Lease;
  ref: Ref;
  appendId: string;
  recorded: Recorded | null;
  /** The nextSeq that the first attempt saw: its own append can only stand at or behind it. */
  firstSeq: number | null;
  /** An earlier transaction may have been committed. */
  unclear: boolean;
}

interface Decision {
  answer: Started | RunOutcome;
  /** What was committed with it. */
  events: Event[];
}

/** Thrown out of the transaction: the turn has run before, and what it did has to be read first. */
class RecordNeeded extends Error {
  constructor(readonly queueSeq: number) {
    super('the earlier events of the turn are needed');
  }
}

/** Events of the turn that are read at a time. */
const RECORD_PAGE = 1000;
/** How many events that were added since may be read inside the transaction. More: it is begun again. */
const TAIL_MAX = 200;
/** How often the transaction is begun again because the session grew meanwhile. */
const READ_ROUNDS = 5;

/**
 * Gate 3: whether a turn may start, decided in one fenced transaction (I2, I5, I7, I8).
 *
 * Locks the turn's row, then the session's head; reads everything else plainly. The first write of a lease is its claim:
 * then nobody else can have written since (I1), so what it reads of the turn's earlier attempts is complete. A takeover
 * costs one more, empty transaction, which finds out that there is something to read; a first start costs none.
 */
@Injectable()
export class StartGate {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(LiveEvents) private readonly live: LiveEvents,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(StepPoints) private readonly steps: StepPoints,
    @Inject(Settings) private readonly settings: Pick<Settings, 'turnMaxAttempts'>,
  ) {}

  /**
   * Starts the turn, takes it over, or says why not. Waits through an outage of the ledger while the lease lives; but a
   * claim without a clear answer counts as refused.
   * @throws Error on a fault of this program; nothing is decided then
   */
  async pass(lease: Lease, ref: Ref, signal: AbortSignal): Promise<Started | RunOutcome> {
    const appendId = this.randomness.id();
    const passage: Passage = { lease, ref, appendId, recorded: null, firstSeq: null, unclear: false };
    const claiming = !lease.claimed;
    try {
      const { answer, events } = await this.decide(passage, signal);
      await this.steps.reach('gate3.committed', { turnId: ref.turnId, answer: answer.kind });
      this.live.committed(lease.session, events);
      return answer;
    } catch (error) {
      if (error instanceof StaleOwnerError) return { kind: claiming && lease.trusted ? 'claim_refused' : 'stale' };
      if (claiming && error instanceof UnavailableError) return { kind: 'claim_refused' };
      if (signal.aborted) return { kind: lease.trusted ? 'yielded' : 'stale' };
      throw error;
    }
  }

  private async decide(passage: Passage, signal: AbortSignal): Promise<Decision> {
    for (let round = 0; round < READ_ROUNDS; round++) {
      try {
        // A claim is not repeated: whether it stands is for the next owner's strictly higher epoch to settle.
        if (!passage.lease.claimed) return await this.transact(passage, signal, false);
        const { clock, randomness } = this;
        return await untilAnswered({ clock, randomness }, signal, (unclear) => this.transact(passage, signal, unclear));
      } catch (error) {
        if (!(error instanceof RecordNeeded)) throw error;
        passage.recorded = await this.readRecord(passage, error.queueSeq);
      }
    }
    return { answer: { kind: 'yielded' }, events: [] };
  }

  private async transact(passage: Passage, signal: AbortSignal, unclear: boolean): Promise<Decision> {
    const { lease, ref } = passage;
    passage.unclear ||= unclear;
    await this.steps.reach('gate3.before', { turnId: ref.turnId });
    lease.assertTrusted();
    signal.throwIfAborted();
    const decision = await this.database.together((tx) => this.decideIn(tx, passage), {
      lane: sessionName(lease.session),
      bytes: 0,
    });
    // Whatever was written was written under this epoch.
    if (decision.events.length > 0) lease.claimed = true;
    return decision;
  }

  private async decideIn(tx: Tx, passage: Passage): Promise<Decision> {
    const { session } = passage.lease;
    const [row, head, line] = await Promise.all([
      this.turns.lock(tx, session.account, passage.ref.turnId),
      this.ledger.lockHead(tx, session),
      this.turns.live(tx, session),
    ]);
    if (!row || !head || row.sessionId !== session.sessionId || row.generation !== passage.ref.generation) {
      return only({ kind: 'dropped' });
    }
    const standing = await this.ownAppend(tx, head, passage);
    if (isTerminal(row.state)) return { answer: { kind: 'ended', state: row.state }, events: standing };
    if (standing.length > 0) return this.started(tx, row, passage, standing);
    if (row.state !== 'stop_requested' && line.some((other) => other.queueSeq < row.queueSeq!)) {
      return only({ kind: 'behind', live: line.map(({ turnId, generation }) => ({ turnId, generation })) });
    }
    return this.move(tx, head, row, passage);
  }

  /** What an earlier attempt of this passage has committed without our hearing of it. */
  private async ownAppend(tx: Tx, head: SessionHead, passage: Passage): Promise<Event[]> {
    const { firstSeq } = passage;
    passage.firstSeq ??= head.nextSeq;
    if (firstSeq === null || !(tx.uncertain || passage.unclear)) return [];
    return this.ledger.appended(tx, head, passage.appendId, firstSeq);
  }

  /** The append comes first: it may be refused, and then nothing is left to be written. */
  private async move(tx: Tx, head: SessionHead, row: TurnRow, passage: Passage): Promise<Decision> {
    const { session, owner } = passage.lease;
    const { nowMs } = head;
    const progress = row.state === 'queued' ? new TurnProgress() : await this.progress(tx, head, row, passage);
    if (row.state === 'stop_requested') {
      const data = { ...stopFacts(row), gate: 'start' as const };
      const events = this.append(tx, head, passage, progress, { type: 'turn.stopped', turn: passage.ref, data });
      this.turns.move(tx, row, 'start', { nowMs });
      return { answer: { kind: 'ended', state: 'stopped' }, events };
    }
    if (progress.barrenAttempts >= this.settings.turnMaxAttempts) {
      const error = poisoned(progress.barrenAttempts);
      const last: EventDraft = { type: 'turn.failed', turn: passage.ref, data: error };
      const events = this.append(tx, head, passage, progress, last);
      this.turns.move(tx, row, 'fail', { nowMs, error });
      return { answer: { kind: 'ended', state: 'failed' }, events };
    }
    const run = { attempt: progress.attempts + 1, podId: owner.podId, epoch: owner.epoch };
    const start: EventDraft =
      row.state === 'queued'
        ? { type: 'turn.started', turn: passage.ref, data: run }
        : { type: 'turn.resumed', turn: passage.ref, data: { ...run, voids: progress.voidStep } };
    const append = { id: passage.appendId, writer: writer(passage.lease), events: [start] };
    const events = this.ledger.append(tx, head, append);
    this.turns.move(tx, row, 'start', { nowMs, attempts: run.attempt });
    return { answer: await this.toStart(tx, row, { session, progress, events }), events };
  }

  /** The last events of a turn that does not run any more: its open calls are closed first. */
  private append(
    tx: Tx,
    head: SessionHead,
    { lease, ref, appendId }: Passage,
    progress: TurnProgress,
    last: EventDraft,
  ) {
    const events = [...interruptedResults(ref, progress.openCalls), last];
    return this.ledger.append(tx, head, { id: appendId, writer: writer(lease), events, activity: true });
  }

  private async started(tx: Tx, row: TurnRow, passage: Passage, standing: Event[]): Promise<Decision> {
    const { session } = passage.lease;
    const progress = TurnProgress.of(passage.recorded?.events ?? []);
    return { answer: await this.toStart(tx, row, { session, progress, events: standing }), events: standing };
  }

  private async toStart(
    tx: Tx,
    row: TurnRow,
    { session, progress, events }: { session: Lease['session']; progress: TurnProgress; events: Event[] },
  ): Promise<Started> {
    const said = await this.ledger.eventAt(tx, session, row.contentSeq!);
    for (const event of events) progress.apply(event);
    const { content } = said!.data as EventData['message.accepted' | 'message.edited'];
    return { kind: 'started', content, progress, stopRequested: row.state === 'stop_requested' };
  }

  /** What earlier attempts have recorded, complete: the session's head is locked. */
  private async progress(tx: Tx, head: SessionHead, row: TurnRow, { recorded, lease, ref }: Passage) {
    const missing = recorded ? head.nextSeq - 1 - recorded.upTo : Infinity;
    if (!recorded || missing > TAIL_MAX) throw new RecordNeeded(row.queueSeq!);
    const seqs = Array.from({ length: Math.max(0, missing) }, (_, at) => recorded.upTo + 1 + at);
    const added = seqs.length > 0 ? await this.ledger.eventsAt(tx, lease.session, seqs) : [];
    const own = added.filter((event) => event.turnId === ref.turnId && event.generation === ref.generation);
    recorded.events.push(...own);
    recorded.upTo = head.nextSeq - 1;
    return TurnProgress.of(recorded.events);
  }

  private async readRecord({ lease: { session }, ref }: Passage, queueSeq: number): Promise<Recorded> {
    const [lastSeq] = await this.ledger.lastSeqs([session]);
    const events: Event[] = [];
    for (let after = queueSeq; ;) {
      const page = await this.ledger.events(session, after, RECORD_PAGE, ref);
      // Streamed text is void by now; whole replies count.
      events.push(...page.filter(({ type }) => type !== 'model.text'));
      after = page.at(-1)?.seq ?? after;
      if (page.length < RECORD_PAGE) return { events, upTo: Math.max(lastSeq!, after) };
    }
  }
}

function writer({ claimed, owner: { epoch, podId, boot } }: Lease) {
  return claimed ? ({ kind: 'owner', epoch } as const) : ({ kind: 'claim', epoch, pod: { podId, boot } } as const);
}

function only(answer: RunOutcome): Decision {
  return { answer, events: [] };
}

function poisoned(attempts: number): TurnError {
  const message = `${attempts} attempts in a row ended without getting any further; the turn is set aside`;
  return { code: 'poisoned', message, retryable: true };
}
