import { type Event, type Id, type Meta, type SessionKey, sessionName, StaleOwnerError } from '#protocol';
import {
  type Database,
  placeholders,
  type SqlRunner,
  type SqlValue,
  type Tx,
  UnavailableError,
  wellFormedJson,
} from '#platform';
import { type Append, type Beside, EventLedger, type SessionHead, type SessionRow } from '../event-ledger.js';
import { planAppend, prepareAppend, type PreparedAppend } from './append-plan.js';
import { EVENT_AT, EVENT_COLUMNS, INSERT_EVENT, toEvent } from './event-rows.js';
import { LOCK_HEAD, type LockedHead, namesSessions, SESSION_COLUMNS, toSession, WRITE_HEAD } from './session-rows.js';

/** Sessions asked for in one query. */
const SESSIONS_PER_QUERY = 1_000;

/** So many appends whose outcome is unknown are remembered, to be looked for should they come again. */
const DOUBTFUL_MAX = 1_000;

/** The ledger in MySQL, MariaDB or SQLite. */
export class SqlEventLedger extends EventLedger {
  /** Appends that were given up without a clear end, and the first seq at which their events could stand. */
  private readonly doubtful = new Map<string, number>();

  constructor(private readonly database: Database) {
    super();
  }

  async lockHead(tx: Tx, session: SessionKey): Promise<SessionHead | null> {
    const head = await tx.ask(LOCK_HEAD, session);
    return head.isNew ? null : head;
  }

  async openHead(tx: Tx, session: SessionKey): Promise<SessionHead> {
    return tx.ask(LOCK_HEAD, session);
  }

  append(tx: Tx, head: SessionHead, append: Append): Event[] {
    return writeAppend(tx, head, prepareAppend(append));
  }

  async appended(tx: Tx, head: SessionHead, id: string, fromSeq: number): Promise<Event[]> {
    const { account, sessionId } = head.session;
    const rows = await tx.query(
      `SELECT ${EVENT_COLUMNS} FROM event
       WHERE account = ? AND session_id = ? AND seq >= ? AND event_id = ? ORDER BY seq`,
      [account, sessionId, fromSeq, id],
    );
    return rows.map(toEvent);
  }

  async appendGrouped<T = void>(session: SessionKey, append: Append, beside?: Beside<T>): Promise<Event[]> {
    const prepared = prepareAppend(append);
    let answer: T | undefined;
    let firstSeq = this.doubtful.get(append.id) ?? null;
    try {
      const events = await this.database.together(
        async (tx) => {
          const [head, read] = await Promise.all([this.lockHead(tx, session), beside?.read(tx)]);
          answer = read;
          if (!head) throw new StaleOwnerError(`there is no session ${session.sessionId} to write to`);
          const earlier = firstSeq === null ? [] : await this.appended(tx, head, append.id, firstSeq);
          firstSeq ??= head.nextSeq;
          return earlier.length > 0 ? earlier : writeAppend(tx, head, prepared);
        },
        { lane: sessionName(session), bytes: prepared.bytes },
      );
      this.doubtful.delete(append.id);
      if (beside) beside.heard(answer as T);
      return events;
    } catch (error) {
      if (error instanceof UnavailableError && firstSeq !== null) this.remember(append.id, firstSeq);
      throw error;
    }
  }

  async createSession(
    session: SessionKey,
    given: { title: string | null; metadata: Meta | null; digest: string },
  ): Promise<{ created: boolean; row: SessionRow }> {
    return this.database.transaction(async (tx) => {
      const present = await findSession(tx, session);
      if (present) return { created: false, row: present };
      await insertSession(tx, session, given);
      return { created: true, row: (await findSession(tx, session)) as SessionRow };
    });
  }

  async updateSession(
    session: SessionKey,
    change: { title?: string | null; metadata?: Meta | null },
  ): Promise<SessionRow | null> {
    const sets: [string, SqlValue][] = [];
    if (change.title !== undefined) sets.push(['title = ?', change.title]);
    if (change.metadata !== undefined) sets.push(['metadata = ?', change.metadata && wellFormedJson(change.metadata)]);
    return this.database.transaction(async (tx) => {
      if (sets.length > 0) {
        await tx.execute(
          `UPDATE session SET ${sets.map(([set]) => set).join(', ')} WHERE account = ? AND session_id = ?`,
          [...sets.map(([, value]) => value), session.account, session.sessionId],
        );
      }
      return findSession(tx, session);
    });
  }

  async findSession(session: SessionKey): Promise<SessionRow | null> {
    return findSession(this.database, session);
  }

  async listSessions(
    account: Id,
    after: { lastActivityAtMs: number; sessionId: Id } | null,
    limit: number,
  ): Promise<SessionRow[]> {
    const behind = after ? 'AND last_activity_at <= ? AND (last_activity_at < ? OR session_id < ?)' : '';
    const cursor = after ? [after.lastActivityAtMs, after.lastActivityAtMs, after.sessionId] : [];
    const rows = await this.database.query(
      `SELECT ${SESSION_COLUMNS} FROM session ${this.database.dialect.forceIndex('session_activity')}
       WHERE account = ? ${behind} ORDER BY last_activity_at DESC, session_id DESC LIMIT ?`,
      [account, ...cursor, limit],
    );
    return rows.map(toSession);
  }

  async events(
    session: SessionKey,
    after: number,
    limit: number,
    turn?: { turnId: Id; generation: number },
  ): Promise<Event[]> {
    const rows = await this.database.query(
      `SELECT ${EVENT_COLUMNS} FROM event WHERE account = ? AND session_id = ? AND seq > ?
       ${turn ? 'AND turn_id = ? AND generation = ?' : ''} ORDER BY seq LIMIT ?`,
      [session.account, session.sessionId, after, ...(turn ? [turn.turnId, turn.generation] : []), limit],
    );
    return rows.map(toEvent);
  }

  async eventsAt(runner: SqlRunner, session: SessionKey, seqs: readonly number[]): Promise<Event[]> {
    if (seqs.length === 0) return [];
    const rows = await runner.query(
      `SELECT ${EVENT_COLUMNS} FROM event
       WHERE account = ? AND session_id = ? AND seq IN (${placeholders(seqs.length)}) ORDER BY seq`,
      [session.account, session.sessionId, ...seqs],
    );
    return rows.map(toEvent);
  }

  async eventAt(tx: Tx, session: SessionKey, seq: number): Promise<Event | null> {
    return tx.ask(EVENT_AT, { session, seq });
  }

  async lastSeqs(sessions: readonly SessionKey[]): Promise<number[]> {
    const lastSeqs = new Map<string, number>();
    for (let from = 0; from < sessions.length; from += SESSIONS_PER_QUERY) {
      const named = namesSessions(sessions.slice(from, from + SESSIONS_PER_QUERY));
      const rows = await this.database.query<{ account: string; session_id: string; next_seq: number }>(
        `SELECT account, session_id, next_seq FROM session WHERE ${named.sql}`,
        named.values,
      );
      for (const row of rows) {
        lastSeqs.set(sessionName({ account: row.account, sessionId: row.session_id }), row.next_seq - 1);
      }
    }
    return sessions.map((session) => lastSeqs.get(sessionName(session)) ?? 0);
  }

  private remember(appendId: string, firstSeq: number): void {
    const [oldest] = this.doubtful.keys();
    if (this.doubtful.size >= DOUBTFUL_MAX && oldest !== undefined) this.doubtful.delete(oldest);
    this.doubtful.set(appendId, firstSeq);
  }

  async ownerEpoch(session: SessionKey): Promise<number> {
    return (await this.findSession(session))?.ownerEpoch ?? 0;
  }
}

/** @throws StaleOwnerError; nothing is left to be written then */
function writeAppend(tx: Tx, head: SessionHead, append: PreparedAppend): Event[] {
  const locked = head as LockedHead;
  const { events, rows } = planAppend(locked, append);
  for (const row of rows) tx.write(INSERT_EVENT, row);
  if (rows.length > 0) tx.write(WRITE_HEAD, locked);
  return events;
}

async function findSession(runner: SqlRunner, session: SessionKey): Promise<SessionRow | null> {
  const [row] = await runner.query(`SELECT ${SESSION_COLUMNS} FROM session WHERE account = ? AND session_id = ?`, [
    session.account,
    session.sessionId,
  ]);
  return row ? toSession(row) : null;
}

async function insertSession(
  tx: Tx,
  session: SessionKey,
  given: { title: string | null; metadata: Meta | null; digest: string },
): Promise<void> {
  const now = tx.dialect.nowMs();
  await tx.execute(`INSERT INTO session (${SESSION_COLUMNS}) VALUES (?, ?, ?, ?, ?, 1, 0, ${now}, ${now})`, [
    session.account,
    session.sessionId,
    given.title,
    given.metadata && wellFormedJson(given.metadata),
    given.digest,
  ]);
}
