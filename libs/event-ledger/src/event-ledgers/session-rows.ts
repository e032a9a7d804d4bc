import type { Meta, SessionKey } from '#protocol';
import { inPairs, type Row, type SqlRunner, type SqlValue, type Tx } from '#platform';
import type { SessionHead, SessionRow } from '../event-ledger.js';
import type { MovedHead } from './append-plan.js';

export const SESSION_COLUMNS =
  'account, session_id, title, metadata, digest, next_seq, owner_epoch, created_at, last_activity_at';

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

/**
 * Locks these sessions' rows in the order of their key. With `skipLocked`, rows that another transaction holds are left
 * out; unknown sessions always are.
 */
export async function lockHeads(
  tx: Tx,
  sessions: readonly SessionKey[],
  { skipLocked }: { skipLocked: boolean },
): Promise<SessionHead[]> {
  const { dialect } = tx;
  const named = namesSessions(sessions);
  const rows = await tx.query(
    `SELECT account, session_id, next_seq, owner_epoch, ${dialect.nowMs()} AS now_ms
     FROM session ${dialect.forceIndex('PRIMARY')} WHERE ${named.sql} ORDER BY account, session_id
     ${skipLocked ? dialect.forUpdateSkipLocked : dialect.forUpdate}`,
    named.values,
  );
  return rows.map((row) => ({
    session: { account: row['account'] as string, sessionId: row['session_id'] as string },
    nextSeq: row['next_seq'] as number,
    ownerEpoch: row['owner_epoch'] as number,
    nowMs: row['now_ms'] as number,
  }));
}

/** Writes heads that appends have moved on; their rows are locked by this transaction. One statement. */
export async function writeHeads(runner: SqlRunner, moved: readonly MovedHead[]): Promise<void> {
  if (moved.length === 0) return;
  const sets = [
    caseOfSession('next_seq', moved, (each) => each.head.nextSeq),
    caseOfSession(
      'owner_epoch',
      moved.filter((each) => each.claimed),
      (each) => each.head.ownerEpoch,
    ),
    caseOfSession(
      'last_activity_at',
      moved.filter((each) => each.active),
      (each) => each.head.nowMs,
    ),
  ].filter((set) => set !== null);
  const named = namesSessions(moved.map((each) => each.head.session));
  await runner.execute(`UPDATE session SET ${sets.map((set) => set.sql).join(', ')} WHERE ${named.sql}`, [
    ...sets.flatMap((set) => set.values),
    ...named.values,
  ]);
}

/** Sets a column of several rows, to each its own value; of the others to what it is. */
function caseOfSession(
  column: string,
  moved: readonly MovedHead[],
  valueOf: (moved: MovedHead) => number,
): { sql: string; values: SqlValue[] } | null {
  if (moved.length === 0) return null;
  const cases = Array(moved.length).fill('WHEN account = ? AND session_id = ? THEN ?').join(' ');
  return {
    sql: `${column} = CASE ${cases} ELSE ${column} END`,
    values: moved.flatMap((each) => [each.head.session.account, each.head.session.sessionId, valueOf(each)]),
  };
}
