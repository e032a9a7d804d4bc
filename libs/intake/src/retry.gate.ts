import { Inject, Injectable } from '@nestjs/common';
import { ButlerError, type Event, type Id, isTerminal, type Ref, type SessionKey } from '#protocol';
import { Database, Randomness, Settings, type Tx } from '#platform';
import { EventLedger } from '#event-ledger';
import { type Decided, Family, Heads } from '#family';
import { type TurnRow, Turns } from '#turn-lifecycle';
import { type Actor, assertMayAct, staleGeneration } from './identity.js';
import { assertRoom } from './room.js';

/** A retry as a caller asks for it, validated. `generation`: the one that is retried. */
export interface RetryRequest extends SessionKey, Actor {
  turnId: Id;
  generation: number;
}

/** What a retry has decided. `events` is empty when it had been accepted before. */
export interface Retried {
  turn: TurnRow;
  /** The generation that this retry began, and its place in the order. */
  ref: Ref;
  seq: number;
  events: Event[];
  /** Live descendants of the generation before, stopped. */
  decided: Decided[];
  /** The newest epoch that has claimed the session, where it was read. */
  ownerEpoch: number | undefined;
}

/**
 * Puts the next generation of a turn that has ended in line, in one transaction (I7, I8). It begins with a clean slate of
 * steps. Names the generation that it retries, so that a resent retry is one retry [B4]; live children of that one are
 * stopped first, and no ancestor may be stopped [D3].
 */
@Injectable()
export class RetryGate {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(Turns) private readonly turns: Turns,
    @Inject(EventLedger) private readonly ledger: EventLedger,
    @Inject(Family) private readonly family: Family,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(Settings) private readonly settings: Pick<Settings, 'queueMaxPending'>,
  ) {}

  /**
   * @throws ButlerError not_found, turn_mismatch, turn_stopped, turn_ended, stale_generation, queue_full;
   *   UnavailableError: it may have happened, ask again
   */
  async retry(request: RetryRequest): Promise<Retried> {
    try {
      return await this.database.transaction((tx) => this.retryIn(tx, request));
    } catch (error) {
      const isStale = error instanceof ButlerError && error.code === 'stale_generation';
      const before = isStale ? await this.longBefore(request) : null;
      if (!before) throw error;
      return before;
    }
  }

  private async retryIn(tx: Tx, request: RetryRequest): Promise<Retried> {
    const { account, turnId } = request;
    const seen = await this.turns.find(tx, account, turnId);
    if (!seen) throw new ButlerError('not_found', 'There is no such turn in this session.', { turnId });
    assertMayAct(seen, request, request);
    const above = seen.path.split('/').slice(0, -1).join('/');
    const before = await this.earlier(tx, request, seen);
    if (before) return before;
    if (above !== '') await this.family.holdUnstopped(tx, account, above);
    const row = (await this.turns.lock(tx, account, turnId))!;
    // The same call, sent twice at once, may have been first.
    const meanwhile = await this.earlier(tx, request, row);
    if (meanwhile) return meanwhile;
    assertMayRetry(row, request);
    const below = await this.turns.lockLiveBelow(tx, account, row.path);
    const heads = await Heads.lock(tx, this.ledger, [row, ...below]);
    const head = heads.of(row);
    assertRoom(request, await this.turns.countQueued(tx, row), this.settings);
    const old = { turnId, generation: row.generation };
    const ref = { turnId, generation: row.generation + 1 };
    const seq = head.nextSeq;
    const { by } = request;
    const events = this.ledger.append(tx, head, {
      ...{ id: this.randomness.id(), writer: { kind: 'producer' }, activity: true },
      events: [{ type: 'turn.queued', turn: ref, data: { retryOf: old.generation, by } }],
    });
    this.turns.retry(tx, row, { seq, nowMs: head.nowMs });
    const decided = this.family.stopBelow(tx, heads, below, { by, reason: 'retried', via: old });
    return { turn: row, ref, seq, events, decided, ownerEpoch: head.ownerEpoch };
  }

  /** The same retry, accepted before another one: its generation's first event tells. */
  private async longBefore(request: RetryRequest): Promise<Retried | null> {
    const turn = (await this.turns.find(this.database, request.account, request.turnId))!;
    const ref = { turnId: turn.turnId, generation: request.generation + 1 };
    if (turn.acceptedSeq === null || turn.generation <= ref.generation) return null;
    const [first] = await this.ledger.events(request, turn.acceptedSeq, 1, ref);
    if (first?.type !== 'turn.queued' || first.data.retryOf !== request.generation) return null;
    return { turn, ref, seq: first.seq, events: [], decided: [], ownerEpoch: undefined };
  }

  /** The same retry, accepted before; whatever has happened to its generation since. */
  private async earlier(tx: Tx, { generation }: RetryRequest, row: TurnRow): Promise<Retried | null> {
    if (row.generation !== generation + 1) return null;
    const queued = row.queueSeq === null ? null : await this.ledger.eventAt(tx, row, row.queueSeq);
    if (queued?.type !== 'turn.queued' || queued.generation !== row.generation) {
      throw stopped(row, 'This retry was stopped before it came. Retry the generation that was stopped.');
    }
    const ref = { turnId: row.turnId, generation: row.generation };
    return { turn: row, ref, seq: row.queueSeq!, events: [], decided: [], ownerEpoch: undefined };
  }
}

/** @throws ButlerError */
function assertMayRetry(row: TurnRow, { generation }: RetryRequest): void {
  if (row.generation !== generation) throw staleGeneration(row.turnId, row);
  if (!isTerminal(row.state)) {
    const { turnId, state } = row;
    const message = 'This turn has not ended yet. Stop it, or wait for its end, before you retry it.';
    throw new ButlerError('turn_ended', message, { turnId, generation, state });
  }
  if (row.acceptedSeq === null) throw stopped(row, 'This turn was stopped before its message came: nothing to retry.');
}

function stopped({ turnId, generation, state }: TurnRow, message: string): ButlerError {
  return new ButlerError('turn_stopped', message, { turnId, generation, state });
}
