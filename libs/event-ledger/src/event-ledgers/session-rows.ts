import { type Id, type Meta, type SessionKey, sessionName } from '#protocol';
import {
  type Dialect,
  HELD,
  inPairs,
  LOCK_RANK,
  type Question,
  type Row,
  type SqlPart,
  type SqlValue,
  type Statement,
  type Writing,
  WRITE_RANK,
} from '#platform';
import type { SessionHead, SessionRow } from '../event-ledger.js';

export const SESSION_COLUMNS =
  'account, session_id, title, metadata, digest, next_seq, owner_epoch, created_at, last_activity_at';

/** The digest of a session that its first message has opened: equal to no creation's. */
const OPENED_BY_MESSAGE = '';

export function toSession(row: Row): SessionRow {
  return {
    session: { account: row['account'] as string, sessionId: row['session_id'] as string },
    title: row['title'] as string | null,
    metadata: row['metadata'] === null ? null : (JSON.parse(row['metadata'] as string) as Meta),
    digest: row['digest'] as string,
    lastSeq: (row['next_seq'] as number) - 1,
    ownerEpoch: row['owner_epoch'] as number,
    createdAtMs: row['created_at'] as number,
    lastActivityAtMs: row['last_activity_at'] as number,
  };
}

/** The part of a statement that names these sessions' rows, by ranges of the primary key. */
export function namesSessions(sessions: readonly SessionKey[]): { sql: string; values: SqlValue[] } {
  return inPairs(
    'account',
    'session_id',
    sessions.map((session) => [session.account, session.sessionId] as const),
  );
}

/** A session's row, locked by a transaction and moved on by its appends; it is written when the work is done. */
export class LockedHead implements SessionHead {
  /** What its appends have changed beside `nextSeq`. */
  claimed = false;
  active = false;

  constructor(
    readonly session: SessionKey,
    public nextSeq: number,
    public ownerEpoch: number,
    readonly nowMs: number,
    public spawnedBy: Id | null,
    /** The row is not there yet; its first message creates it. */
    readonly isNew = false,
  ) {}
}

/**
 * Locks sessions' rows, in the order of their key; the head of an unknown session is new. Several that ask for one session
 * get the same head, so their appends take consecutive seqs.
 */
export const LOCK_HEAD: Question<SessionKey, LockedHead> = {
  rank: LOCK_RANK.session,
  name: sessionName,
  queries(dialect, keys, skipLocked) {
    const { sql, values } = namesSessions(keys);
    const lock = skipLocked ? dialect.forUpdateSkipLocked : dialect.forUpdate;
    const columns = `account, session_id, next_seq, owner_epoch, spawned_by, ${dialect.nowMs()} AS now_ms`;
    return [
      {
        sql: `SELECT ${columns} FROM session ${dialect.forceIndex('PRIMARY')} WHERE ${sql} ORDER BY account, session_id ${lock}`,
        values,
      },
      // The time for those that are not there.
      { sql: `SELECT ${dialect.nowMs()} AS now_ms`, values: [] },
      // Tells which of those that were left out are there. Where none was, one that has come since is met at its insertion.
      ...(skipLocked ? [{ sql: `SELECT account, session_id FROM session WHERE ${sql}`, values }] : []),
    ];
  },
  answers([locked, time, present = []], keys) {
    const heads = new Map<string, LockedHead | typeof HELD>();
    for (const row of present) heads.set(sessionName(keyOf(row)), HELD);
    for (const row of locked!) {
      const numbers = [row['next_seq'], row['owner_epoch'], row['now_ms']] as [number, number, number];
      const head = new LockedHead(keyOf(row), ...numbers, row['spawned_by'] as Id | null);
      heads.set(sessionName(keyOf(row)), head);
    }
    const unknown = ({ account, sessionId }: SessionKey): LockedHead =>
      new LockedHead({ account, sessionId }, 1, 0, time![0]!['now_ms'] as number, null, true);
    return keys.map((key) => heads.get(sessionName(key)) ?? unknown(key));
  },
};

/** Heads that appends have moved on: new rows first, then one statement for all others. */
export const WRITE_HEAD: Writing<LockedHead> = {
  rank: WRITE_RANK.session,
  statements(rows, dialect) {
    const heads = [...new Set(rows)];
    const created = heads.filter((head) => head.isNew);
    const moved = heads.filter((head) => !head.isNew);
    return [
      ...(created.length > 0 ? [insertHeads(created)] : []),
      ...(moved.length > 0 ? [updateHeads(dialect, moved)] : []),
    ];
  },
};

function keyOf(row: Row): SessionKey {
  return { account: row['account'] as string, sessionId: row['session_id'] as string };
}

/** Two that open the same session at once: the second meets a duplicate key, and its transaction is repeated. */
function insertHeads(created: readonly LockedHead[]): Statement {
  const sorted = [...created].sort((a, b) => (sessionName(a.session) < sessionName(b.session) ? -1 : 1));
  return {
    sql: `INSERT INTO session (${SESSION_COLUMNS}, spawned_by) VALUES ${sorted.map(() => '(?, ?, NULL, NULL, ?, ?, ?, ?, ?, ?)').join(', ')}`,
    values: sorted.flatMap(({ session, nextSeq, ownerEpoch, nowMs, spawnedBy }) => [
      ...[session.account, session.sessionId, OPENED_BY_MESSAGE, nextSeq, ownerEpoch, nowMs, nowMs, spawnedBy],
    ]),
    matches: sorted.length,
  };
}

/** By the key: left to itself the server walks a small table from end to end, through rows that others hold. */
function updateHeads(dialect: Dialect, moved: readonly LockedHead[]): Statement {
  const sets = [
    caseOfSession('next_seq', moved, (head) => head.nextSeq),
    caseOfSession(
      'owner_epoch',
      moved.filter((head) => head.claimed),
      (head) => head.ownerEpoch,
    ),
    caseOfSession(
      'last_activity_at',
      moved.filter((head) => head.active),
      (head) => head.nowMs,
    ),
  ].filter((set) => set !== null);
  const named = namesSessions(moved.map((head) => head.session));
  return {
    sql: `UPDATE session ${dialect.forceIndex('PRIMARY')} SET ${sets.map((set) => set.sql).join(', ')} WHERE ${named.sql}`,
    values: [...sets.flatMap((set) => set.values), ...named.values],
    matches: moved.length,
  };
}

/** Sets a column of several rows, to each its own value; of the others to what it is. */
function caseOfSession(
  column: string,
  heads: readonly LockedHead[],
  valueOf: (head: LockedHead) => number,
): SqlPart | null {
  if (heads.length === 0) return null;
  const cases = Array(heads.length).fill('WHEN account = ? AND session_id = ? THEN ?').join(' ');
  return {
    sql: `${column} = CASE ${cases} ELSE ${column} END`,
    values: heads.flatMap((head) => [head.session.account, head.session.sessionId, valueOf(head)]),
  };
}
