import { Inject, Injectable } from '@nestjs/common';
import {
  type Content,
  type Event,
  type EventData,
  type EventDraft,
  isTerminal,
  type Kind,
  type Ref,
  type RunOutcome,
  sessionName,
  StaleOwnerError,
  type TurnError,
} from '#protocol';
import { Clock, Database, Randomness, Settings, StepPoints, type Tx, UnavailableError } from '#platform';
import { EventLedger, LiveEvents, type SessionHead } from '#event-ledger';
import { type ChildEnd, Family, Heads, type Reported, Reports } from '#family';
import type { Lease } from '#session-lock';
import { type LiveTurn, type TurnRow, Turns } from '#turn-lifecycle';
import { untilAnswered } from './ledger-outage.js';
import { interruptedResults, stopFacts } from './turn-end.js';
import { TurnProgress } from './turn-progress.js';

/** The turn may run: `progress` is what earlier attempts have recorded, this one's start included. */
export interface Started {
  kind: 'started';
  ref: Ref;
  messageKind: Kind;
  /** It tells its parent how it ends. */
  isChild: boolean;
  /** Messages wait that may join this turn. */
  steeringWaits: boolean;
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
  /** It may end a child here, so its parent's row is locked first. */
  withParent: boolean;
}

/** What the transaction has locked and read. */
interface Ground {
  row: TurnRow | null;
  head: SessionHead | null;
  line: LiveTurn[];
  /** Where a child's end is reported; null where none can be. */
  kin: { parent: TurnRow | null; heads: Heads } | null;
}

interface Decision {
  answer: Started | RunOutcome;
  /** What was committed with it. */
  events: Event[];
  reported: Reported | null;
}

/** Thrown out of the transaction: a child ends at this gate, which takes its parent's lock first. */
class ParentNeeded extends Error {
  constructor() {
    super("the parent's row is needed");
  }
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
    @Inject(Family) private readonly family: Family,
    @Inject(Reports) private readonly reports: Reports,
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
    const passage: Passage = {
      lease,
      ref,
      appendId,
      recorded: null,
      firstSeq: null,
      unclear: false,
      withParent: false,
    };
    const claiming = !lease.claimed;
    try {
      const { answer, events, reported } = await this.decide(passage, signal);
      await this.steps.reach('gate3.committed', { turnId: ref.turnId, answer: answer.kind });
      this.live.committed(lease.session, events);
      await this.reports.deliver(reported);
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
        if (error instanceof RecordNeeded) passage.recorded = await this.readRecord(passage, error.queueSeq);
        else if (error instanceof ParentNeeded) passage.withParent = true;
        else throw error;
      }
    }
    return only({ kind: 'yielded' });
  }

  private async transact(passage: Passage, signal: AbortSignal, unclear: boolean): Promise<Decision> {
    const { lease, ref } = passage;
    passage.unclear ||= unclear;
    await this.steps.reach('gate3.before', { turnId: ref.turnId });
    lease.assertTrusted();
    signal.throwIfAborted();
    const decision = await (passage.withParent
      ? this.database.transaction(async (tx) => this.decideIn(tx, passage, await this.lockWithParent(tx, passage)))
      : this.database.together(async (tx) => this.decideIn(tx, passage, await this.lock(tx, passage)), {
          lane: sessionName(lease.session),
          bytes: 0,
        }));
    // Whatever was written was written under this epoch.
    if (decision.events.length > 0) lease.claimed = true;
    return decision;
  }

  private async lock(tx: Tx, { lease: { session }, ref }: Passage): Promise<Ground> {
    const [row, head, line] = await Promise.all([
      this.turns.lock(tx, session.account, ref.turnId),
      this.ledger.lockHead(tx, session),
      this.turns.live(tx, session),
    ]);
    return { row, head, line, kin: null };
  }

  private async lockWithParent(tx: Tx, { lease: { session }, ref }: Passage): Promise<Ground> {
    const parent = await this.family.holdParent(tx, await this.turns.find(tx, session.account, ref.turnId));
    const row = await this.turns.lock(tx, session.account, ref.turnId);
    const heads = await Heads.lock(tx, this.ledger, [session, ...(parent ? [parent] : [])]);
    const line = await this.turns.live(tx, session);
    return { row, head: heads.of(session), line, kin: { parent, heads } };
  }

  private async decideIn(tx: Tx, passage: Passage, ground: Ground): Promise<Decision> {
    const { session } = passage.lease;
    const { row, head, line } = ground;
    if (!row || !head || row.sessionId !== session.sessionId || row.generation !== passage.ref.generation) {
      return only({ kind: 'dropped' });
    }
    const standing = await this.ownAppend(tx, head, passage);
    if (isTerminal(row.state)) {
      return { answer: { kind: 'ended', state: row.state }, events: standing, reported: null };
    }
    if (standing.length > 0) return this.started(tx, row, passage, standing);
    if (row.state !== 'stop_requested' && line.some((other) => other.queueSeq < row.queueSeq!)) {
      return only({ kind: 'behind', live: line.map(({ turnId, generation }) => ({ turnId, generation })) });
    }
    if (await this.isForgotten(tx, row)) return this.forget(tx, head, row, passage);
    return this.move(tx, { ...ground, head, row }, passage);
  }

  /** What an earlier attempt of this passage has committed without our hearing of it. */
  private async ownAppend(tx: Tx, head: SessionHead, passage: Passage): Promise<Event[]> {
    const { firstSeq } = passage;
    passage.firstSeq ??= head.nextSeq;
    if (firstSeq === null || !(tx.uncertain || passage.unclear)) return [];
    return this.ledger.appended(tx, head, passage.appendId, firstSeq);
  }

  /** The append comes first: it may be refused, and then nothing is left to be written. */
  private async move(
    tx: Tx,
    ground: Ground & { head: SessionHead; row: TurnRow },
    passage: Passage,
  ): Promise<Decision> {
    const { session, owner } = passage.lease;
    const { head, row } = ground;
    const { nowMs } = head;
    const progress = row.state === 'queued' ? new TurnProgress() : await this.progress(tx, head, row, passage);
    const isPoisoned = progress.barrenAttempts >= this.settings.turnMaxAttempts;
    if (row.parent && (row.state === 'stop_requested' || isPoisoned) && !ground.kin) throw new ParentNeeded();
    if (row.state === 'stop_requested') {
      const data = { ...stopFacts(row), gate: 'start' as const };
      const events = this.append(tx, head, passage, progress, { type: 'turn.stopped', turn: passage.ref, data });
      this.turns.move(tx, row, 'start', { nowMs });
      const reported = await this.report(tx, ground, { state: 'stopped', text: progress.lastWords });
      return { answer: { kind: 'ended', state: 'stopped' }, events, reported };
    }
    if (isPoisoned) {
      const error = poisoned(progress.barrenAttempts);
      const last: EventDraft = { type: 'turn.failed', turn: passage.ref, data: error };
      const events = this.append(tx, head, passage, progress, last);
      this.turns.move(tx, row, 'fail', { nowMs, error });
      const reported = await this.report(tx, ground, { state: 'failed', text: error.message });
      return { answer: { kind: 'ended', state: 'failed' }, events, reported };
    }
    const run = { attempt: progress.attempts + 1, podId: owner.podId, epoch: owner.epoch };
    const start: EventDraft =
      row.state === 'queued'
        ? { type: 'turn.started', turn: passage.ref, data: run }
        : { type: 'turn.resumed', turn: passage.ref, data: { ...run, voids: progress.voidStep } };
    const append = { id: passage.appendId, writer: writer(passage.lease), events: [start] };
    const events = this.ledger.append(tx, head, append);
    this.turns.move(tx, row, 'start', { nowMs, attempts: run.attempt });
    const steeringWaits = ground.line.some(({ mode, state }) => mode === 'steer' && state === 'queued');
    return {
      answer: await this.toStart(tx, row, { session, progress, events, steeringWaits }),
      events,
      reported: null,
    };
  }

  private async report(tx: Tx, { kin, row }: Ground & { row: TurnRow }, end: ChildEnd): Promise<Reported | null> {
    return kin && this.family.report(tx, kin.heads, kin.parent, row, end);
  }

  /** A report that was sent to an earlier generation of its parent: nobody is to hear it any more [K2]. */
  private async isForgotten(tx: Tx, { account, kind, parent, state }: TurnRow): Promise<boolean> {
    if (kind !== 'report' || !parent || state !== 'queued') return false;
    return (await this.turns.find(tx, account, parent.turnId))?.generation !== parent.generation;
  }

  private forget(tx: Tx, head: SessionHead, row: TurnRow, { lease, ref, appendId }: Passage): Decision {
    const stop = { by: row.initiator ?? '', reason: 'the turn that it reports to was retried' };
    const events = this.ledger.append(tx, head, {
      ...{ id: appendId, writer: writer(lease), activity: true },
      events: [{ type: 'turn.stopped', turn: ref, data: { ...stop, gate: 'start' } }],
    });
    this.turns.move(tx, row, 'stop', { nowMs: head.nowMs, stop });
    return { answer: { kind: 'ended', state: 'stopped' }, events, reported: null };
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
    const answer = await this.toStart(tx, row, { session, progress, events: standing, steeringWaits: true });
    return { answer, events: standing, reported: null };
  }

  private async toStart(
    tx: Tx,
    row: TurnRow,
    {
      session,
      progress,
      events,
      steeringWaits,
    }: { session: Lease['session']; progress: TurnProgress; events: Event[]; steeringWaits: boolean },
  ): Promise<Started> {
    const said = await this.ledger.eventAt(tx, session, row.contentSeq!);
    for (const event of events) progress.apply(event);
    const { content } = said!.data as EventData['message.accepted' | 'message.edited'];
    const { turnId, generation, parent, kind, state } = row;
    return {
      ...{ kind: 'started', ref: { turnId, generation }, messageKind: kind, content, progress, steeringWaits },
      isChild: parent !== null && kind !== 'report',
      stopRequested: state === 'stop_requested',
    };
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
  return { answer, events: [], reported: null };
}

function poisoned(attempts: number): TurnError {
  const message = `${attempts} attempts in a row ended without getting any further; the turn is set aside`;
  return { code: 'poisoned', message, retryable: true };
}
