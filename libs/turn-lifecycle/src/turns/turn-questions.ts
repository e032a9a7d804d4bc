import { type Id, partitionOf, type SessionKey, sessionName } from '#protocol';
import { HELD, inPairs, LOCK_RANK, type Question, type Row, type SqlPart, type SqlRunner } from '#platform';
import type { LiveTurn, TurnRow } from '../turns.js';
import { LIVE_COLUMNS, toLiveTurn, toTurn, TURN_COLUMNS } from './turn-rows.js';

interface TurnKey {
  account: Id;
  turnId: Id;
}

/** Turns as committed, without a lock. */
export const FIND_TURN: Question<TurnKey, TurnRow | null> = {
  rank: LOCK_RANK.plain,
  name: turnName,
  async answer(runner, keys) {
    const found = await readTurns(runner, keys, '');
    return keys.map((key) => found.get(turnName(key)) ?? null);
  },
};

/** Turns, locked. Several that lock one turn get the same row, with the moves that each of them has made. */
export const LOCK_TURN: Question<TurnKey, TurnRow | null> = {
  rank: LOCK_RANK.turn,
  name: turnName,
  async answer(runner, keys, skipLocked) {
    const { forUpdate, forUpdateSkipLocked } = runner.dialect;
    const found = await readTurns(runner, keys, skipLocked ? forUpdateSkipLocked : forUpdate);
    const missing = keys.filter((key) => !found.has(turnName(key)));
    const held = skipLocked && missing.length > 0 ? await readTurns(runner, missing, '') : new Map<string, TurnRow>();
    return keys.map((key) => (held.has(turnName(key)) ? HELD : (found.get(turnName(key)) ?? null)));
  },
};

/** The live turns of sessions that have a place, by queueSeq. */
export const LIVE_TURNS: Question<SessionKey, LiveTurn[]> = {
  rank: LOCK_RANK.reads,
  name: sessionName,
  async answer(runner, keys) {
    const named = inParts(keys);
    const rows = await runner.query(
      `SELECT ${LIVE_COLUMNS} FROM turn ${runner.dialect.forceIndex('turn_live')}
       WHERE live = 1 AND ${named.sql} AND queue_seq IS NOT NULL ORDER BY queue_seq`,
      named.values,
    );
    const lines = Map.groupBy(rows.map(toLiveTurn), (turn) => sessionName(turn.session));
    return keys.map((key) => lines.get(sessionName(key)) ?? []);
  },
};

/** How many turns of sessions are queued, reports left out. */
export const COUNT_QUEUED: Question<SessionKey, number> = {
  rank: LOCK_RANK.reads,
  name: sessionName,
  async answer(runner, keys) {
    const named = inParts(keys);
    const rows = await runner.query<{ account: Id; session_id: Id; queued: number }>(
      `SELECT account, session_id, COUNT(*) AS queued FROM turn ${runner.dialect.forceIndex('turn_live')}
       WHERE live = 1 AND ${named.sql} AND queue_seq IS NOT NULL AND state = 'queued' AND kind <> 'report'
       GROUP BY account, session_id`,
      named.values,
    );
    const counts = new Map(
      rows.map((row) => [sessionName({ account: row.account, sessionId: row.session_id }), row.queued]),
    );
    return keys.map((key) => counts.get(sessionName(key)) ?? 0);
  },
};

/** These sessions, each with its partition: ranges of the index of live turns. */
export function inParts(sessions: readonly SessionKey[]): SqlPart {
  const byPart = new Map<number, SessionKey[]>();
  for (const session of sessions) {
    const part = partitionOf(session);
    byPart.set(part, [...(byPart.get(part) ?? []), session]);
  }
  const alternatives = [...byPart].map(([part, some]) => {
    const named = inPairs(
      'account',
      'session_id',
      some.map(({ account, sessionId }) => [account, sessionId] as const),
    );
    return { sql: `(part = ? AND ${named.sql})`, values: [part, ...named.values] };
  });
  return {
    sql: `(${alternatives.map(({ sql }) => sql).join(' OR ')})`,
    values: alternatives.flatMap(({ values }) => values),
  };
}

async function readTurns(runner: SqlRunner, keys: readonly TurnKey[], locking: string): Promise<Map<string, TurnRow>> {
  const named = inPairs(
    'account',
    'turn_id',
    keys.map(({ account, turnId }) => [account, turnId] as const),
  );
  const rows: Row[] = await runner.query(
    `SELECT ${TURN_COLUMNS} FROM turn ${runner.dialect.forceIndex('PRIMARY')} WHERE ${named.sql} ${locking}`,
    named.values,
  );
  return new Map(rows.map((row) => toTurn(row)).map((turn) => [turnName(turn), turn]));
}

function turnName({ account, turnId }: TurnKey): string {
  return `${account}/${turnId}`;
}
