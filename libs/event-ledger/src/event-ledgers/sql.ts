import type { Event, Id, Meta, SessionKey } from '#protocol';
import { sessionName } from '#protocol';
import { type Database, placeholders, type SqlRunner, type SqlValue, type Tx, wellFormedJson } from '#platform';
import { type Append, EventLedger, type SessionHead, type SessionRow } from '../event-ledger.js';
import { type MovedHead, planAppend, prepareAppend } from './append-plan.js';
import { EVENT_COLUMNS, insertEvents, toEvent } from './event-rows.js';
import { GroupedAppender } from './grouped-appender.js';
import { lockHeads, namesSessions, SESSION_COLUMNS, toSession, writeHeads } from './session-rows.js';

/** Sessions asked for in one query. */
const SESSIONS_PER_QUERY = 1_000;
/** The digest of a session that its first message has opened: equal to no creation's. */
const OPENED_BY_MESSAGE = '';

/** The ledger in MySQL, MariaDB or SQLite. */
export class SqlEventLedger extends EventLedger {
  private readonly grouped: GroupedAppender;

  constructor(private readonly database: Database) {
    super();
    this.grouped = new GroupedAppender(database);
  }

  async lockHead(tx: Tx, session: SessionKey): Promise<SessionHead | null> {
    const [head] = await lockHeads(tx, [session], { skipLocked: false });
    return head ?? null;
  }

  async openHead(tx: Tx, session: SessionKey): Promise<SessionHead> {
    const head = await this.lockHead(tx, session);
    if (head) return head;
    // Two that open the same one: the second meets a duplicate key, and its transaction is repeated.
    await insertSession(tx, session, { title: null, metadata: null, digest: OPENED_BY_MESSAGE });
    return (await this.lockHead(tx, session)) as SessionHead;
  }

  async append(tx: Tx, head: SessionHead, append: Append): Promise<Event[]> {
    const moved: MovedHead = { head, claimed: false, active: false };
    const { events, rows } = planAppend(moved, prepareAppend(append));
    if (events.length === 0) return events;
    await insertEvents(tx, rows);
    await writeHeads(tx, [moved]);
    return events;
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

  async appendGrouped(session: SessionKey, append: Append): Promise<Event[]> {
    return this.grouped.append(session, prepareAppend(append));
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

  async ownerEpoch(session: SessionKey): Promise<number> {
    return (await this.findSession(session))?.ownerEpoch ?? 0;
  }
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
