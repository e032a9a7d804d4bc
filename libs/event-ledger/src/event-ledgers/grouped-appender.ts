import { AsyncLocalStorage } from 'node:async_hooks';
import type { Event, SessionKey } from '#protocol';
import { sessionName, StaleOwnerError } from '#protocol';
import { type Database, type SqlPart, type Tx, UnavailableError } from '#platform';
import type { SessionHead } from '../event-ledger.js';
import { type MovedHead, planAppend, type PreparedAppend } from './append-plan.js';
import { type EventInsert, insertEvents, toEvent } from './event-rows.js';
import { lockHeads, writeHeads } from './session-rows.js';

/** A group holds at most so many sessions and, unless it is a single append, so many bytes of data. */
export const GROUP_MAX_SESSIONS = 64;
export const GROUP_MAX_BYTES = 1024 * 1024;
/** So many sessions at once wait for their row by themselves; each takes a connection. */
const ALONE_MAX = 4;
/** So many appends whose outcome is unknown are remembered, to be looked for should they come again. */
const DOUBTFUL_MAX = 1_000;
/** So many appends may wait, in bytes and in number. */
const WAITING_MAX_BYTES = 64 * 1024 * 1024;
const WAITING_MAX = 10_000;

interface Entry {
  append: PreparedAppend;
  /** Where its events would stand if an earlier attempt was committed after all; null before the first. */
  firstSeq: number | null;
  resolve(events: Event[]): void;
  reject(error: unknown): void;
}

/** The appends of one session that wait, in order. While `busy` some of its appends are in a transaction. */
interface Line {
  session: SessionKey;
  waiting: Entry[];
  busy: boolean;
}

/** Appends of one session that are written together. */
interface Batch {
  line: Line;
  entries: Entry[];
}

type Outcome = { events: Event[] } | { error: unknown };

/**
 * Commits appends of many sessions together: while one group's transaction runs, what arrives joins the next.
 *
 * It owns no row between groups. One group at a time; beside it, at most ALONE_MAX sessions whose row was held by
 * somebody else wait for it on connections of their own, so a locked session delays no other. A session is in one
 * transaction at a time and its appends go in the order of their calls (I10). A group costs four round trips and one
 * commit, however many sessions it holds: lock the heads, insert the events, move the heads on, commit.
 *
 * An append that was in an attempt without a clear end is looked for by its id, under its session's lock, before it is
 * written again, also when its caller brings it again later (I4).
 */
export class GroupedAppender {
  private readonly lines = new Map<string, Line>();
  /** Lines with something waiting that are in no transaction, longest waiting first. */
  private readonly ready = new Set<Line>();
  private readonly doubtful = new Map<string, number>();
  private waitingBytes = 0;
  private waitingCount = 0;
  private running = false;
  private alone = 0;
  private readonly leftOut: Batch[] = [];
  /** What runs here belongs to no caller: it must not look as if it were inside the first caller's transaction. */
  private readonly outside = AsyncLocalStorage.snapshot();

  constructor(private readonly database: Database) {}

  /** @throws StaleOwnerError, UnavailableError */
  append(session: SessionKey, append: PreparedAppend): Promise<Event[]> {
    this.database.refuseNested();
    if (this.waitingCount >= WAITING_MAX || this.waitingBytes + append.bytes > WAITING_MAX_BYTES) {
      throw new UnavailableError('database', `${this.waitingCount} appends wait for the database already`);
    }
    return new Promise((resolve, reject) => {
      const line = this.lineOf(session);
      const firstSeq = this.doubtful.get(append.id) ?? null;
      line.waiting.push({ append, firstSeq, resolve, reject });
      this.waitingBytes += append.bytes;
      this.waitingCount++;
      if (!line.busy) this.ready.add(line);
      if (!this.running) {
        this.running = true;
        this.outside(() => void this.run());
      }
    });
  }

  private lineOf(session: SessionKey): Line {
    const name = sessionName(session);
    let line = this.lines.get(name);
    if (!line) {
      line = { session, waiting: [], busy: false };
      this.lines.set(name, line);
    }
    return line;
  }

  private async run(): Promise<void> {
    // What is called in the same tick as the first append joins its group.
    await Promise.resolve();
    for (let group = this.nextGroup(); group.length > 0; group = this.nextGroup()) await this.commitGroup(group);
    this.running = false;
  }

  private nextGroup(): Batch[] {
    const group: Batch[] = [];
    let bytes = 0;
    for (const line of this.ready) {
      const entries: Entry[] = [];
      for (const { append } of line.waiting) {
        if (bytes > 0 && bytes + append.bytes > GROUP_MAX_BYTES) break;
        bytes += append.bytes;
        entries.push(line.waiting[entries.length] as Entry);
      }
      if (entries.length === 0) break;
      line.waiting.splice(0, entries.length);
      this.waitingCount -= entries.length;
      this.waitingBytes -= entries.reduce((sum, { append }) => sum + append.bytes, 0);
      line.busy = true;
      this.ready.delete(line);
      group.push({ line, entries });
      if (group.length === GROUP_MAX_SESSIONS) break;
    }
    return group;
  }

  private async commitGroup(group: Batch[]): Promise<void> {
    try {
      const { outcomes, skipped } = await this.commit(group, { skipLocked: true });
      for (const batch of group) {
        if (skipped.has(batch)) this.goAlone(batch);
        else this.settle(batch, (entry) => outcomes.get(entry) as Outcome);
      }
    } catch (error) {
      if (isFinal(group, error)) for (const batch of group) this.settle(batch, () => ({ error }));
      // One of them makes the statements fail: each is tried by itself, so that only that one fails.
      else for (const batch of group) this.goAlone(batch);
    }
  }

  private goAlone(batch: Batch): void {
    this.leftOut.push(batch);
    if (this.alone === ALONE_MAX) return;
    this.alone++;
    void this.commitLeftOut();
  }

  private async commitLeftOut(): Promise<void> {
    for (let batch = this.leftOut.shift(); batch; batch = this.leftOut.shift()) await this.commitAlone(batch);
    this.alone--;
  }

  private async commitAlone(batch: Batch): Promise<void> {
    let outcomes = new Map<Entry, Outcome>();
    try {
      ({ outcomes } = await this.commit([batch], { skipLocked: false }));
    } catch (error) {
      if (isFinal([batch], error)) for (const entry of batch.entries) outcomes.set(entry, { error });
      else for (const entry of batch.entries) outcomes.set(entry, await this.commitOne(batch.line, entry));
    }
    this.settle(batch, (entry) => outcomes.get(entry) as Outcome);
  }

  private async commitOne(line: Line, entry: Entry): Promise<Outcome> {
    try {
      const { outcomes } = await this.commit([{ line, entries: [entry] }], { skipLocked: false });
      return outcomes.get(entry) as Outcome;
    } catch (error) {
      return { error };
    }
  }

  private settle(batch: Batch, outcomeOf: (entry: Entry) => Outcome): void {
    const { line } = batch;
    for (const entry of batch.entries) {
      const outcome = outcomeOf(entry);
      this.remember(entry, 'error' in outcome && outcome.error instanceof UnavailableError);
      if ('error' in outcome) entry.reject(outcome.error);
      else entry.resolve(outcome.events);
    }
    line.busy = false;
    if (line.waiting.length === 0) {
      this.lines.delete(sessionName(line.session));
      return;
    }
    this.ready.add(line);
    if (!this.running) {
      this.running = true;
      void this.run();
    }
  }

  private remember({ append, firstSeq }: Entry, inDoubt: boolean): void {
    if (!inDoubt || firstSeq === null) {
      this.doubtful.delete(append.id);
      return;
    }
    const [oldest] = this.doubtful.keys();
    if (this.doubtful.size >= DOUBTFUL_MAX && oldest !== undefined) this.doubtful.delete(oldest);
    this.doubtful.set(append.id, firstSeq);
  }

  private commit(
    group: readonly Batch[],
    mode: { skipLocked: boolean },
  ): Promise<{ outcomes: Map<Entry, Outcome>; skipped: Set<Batch> }> {
    return this.database.transaction((tx) => this.write(tx, group, mode));
  }

  private async write(
    tx: Tx,
    group: readonly Batch[],
    mode: { skipLocked: boolean },
  ): Promise<{ outcomes: Map<Entry, Outcome>; skipped: Set<Batch> }> {
    const sessions = group.map(({ line }) => line.session);
    const heads = new Map((await lockHeads(tx, sessions, mode)).map((head) => [sessionName(head.session), head]));
    const skipped = new Set<Batch>();
    const locked: { batch: Batch; head: SessionHead | null }[] = [];
    for (const batch of group) {
      const head = heads.get(sessionName(batch.line.session)) ?? null;
      // Held by somebody else, or unknown: which of them, the wait by itself tells.
      if (head === null && mode.skipLocked) skipped.add(batch);
      else locked.push({ batch, head });
    }
    const found = await findEarlier(tx, locked);
    const outcomes = new Map<Entry, Outcome>();
    const rows: EventInsert[] = [];
    const moved: MovedHead[] = [];
    for (const { batch, head } of locked) {
      const moving = head && { head, claimed: false, active: false };
      const before = head?.nextSeq;
      for (const entry of batch.entries) {
        const earlier = found.get(entry.append.id);
        outcomes.set(entry, earlier ? { events: earlier } : plan(batch.line.session, moving, entry, rows));
      }
      if (moving && moving.head.nextSeq !== before) moved.push(moving);
    }
    await insertEvents(tx, rows);
    await writeHeads(tx, moved);
    return { outcomes, skipped };
  }
}

/** Whether nothing is gained by trying the appends of this group one by one. */
function isFinal(group: readonly Batch[], error: unknown): boolean {
  const single = group.length === 1 && group[0]?.entries.length === 1;
  return single || error instanceof UnavailableError;
}

/** Plans one append and collects its rows. A refused one leaves the others standing. */
function plan(session: SessionKey, moved: MovedHead | null, entry: Entry, rows: EventInsert[]): Outcome {
  if (moved === null) {
    return { error: new StaleOwnerError(`there is no session ${session.sessionId} to write to`) };
  }
  try {
    const firstSeq = moved.head.nextSeq;
    const planned = planAppend(moved, entry.append);
    entry.firstSeq ??= firstSeq;
    rows.push(...planned.rows);
    return { events: planned.events };
  } catch (error) {
    return { error };
  }
}

/** The events of appends that an earlier attempt has written after all, by append id. One query, and mostly none. */
async function findEarlier(
  tx: Tx,
  locked: readonly { batch: Batch; head: SessionHead | null }[],
): Promise<Map<string, Event[]>> {
  const found = new Map<string, Event[]>();
  const asked: SqlPart[] = locked.flatMap(({ batch, head }) =>
    batch.entries
      .filter((entry) => head !== null && entry.firstSeq !== null && entry.firstSeq < head.nextSeq)
      .map(({ append, firstSeq }) => ({
        sql: '(account = ? AND session_id = ? AND seq >= ? AND event_id = ?)',
        values: [batch.line.session.account, batch.line.session.sessionId, firstSeq, append.id],
      })),
  );
  if (asked.length === 0) return found;
  const rows = await tx.query(
    `SELECT event_id, seq, type, turn_id, generation, at, data FROM event
     WHERE ${asked.map(({ sql }) => sql).join(' OR ')} ORDER BY account, session_id, seq`,
    asked.flatMap(({ values }) => values),
  );
  for (const row of rows) {
    const id = row['event_id'] as string;
    found.set(id, [...(found.get(id) ?? []), toEvent(row)]);
  }
  return found;
}
