import { type Id, partitionOf, type SessionKey, sessionName, type TurnState } from '#protocol';
import { type Dialect, HELD, inPairs, LOCK_RANK, type Query, type Question, type Row, type SqlPart } from '#platform';
import type { LiveTurn, TurnRow } from '../turns.js';
import { LIVE_COLUMNS, toLiveTurn, toTurn, TURN_COLUMNS } from './turn-rows.js';

interface TurnKey {
  account: Id;
  turnId: Id;
}

/** Turns as committed, without a lock. */
export const FIND_TURN: Question<TurnKey, TurnRow | null> = {
  rank: LOCK_RANK.unlocked,
  name: turnName,
  queries: (dialect, keys) => [namingTurns(dialect, TURN_COLUMNS, keys, '')],
  answers([rows], keys) {
    const found = byName(rows!);
    return keys.map((key) => found.get(turnName(key)) ?? null);
  },
};

/** Turns, locked. Several that lock one turn get the same row, with the moves that each of them has made. */
export const LOCK_TURN: Question<TurnKey, TurnRow | null> = {
  rank: LOCK_RANK.turn,
  name: turnName,
  queries: (dialect, keys, skipLocked) => [
    namingTurns(dialect, TURN_COLUMNS, keys, skipLocked ? dialect.forUpdateSkipLocked : dialect.forUpdate),
    // Tells which of those that were left out are there.
    ...(skipLocked ? [namingTurns(dialect, 'account, turn_id', keys, '')] : []),
  ],
  answers([locked, present = []], keys) {
    const found = byName(locked!);
    const there = new Set(present.map((row) => `${row['account']}/${row['turn_id']}`));
    return keys.map((key) => found.get(turnName(key)) ?? (there.has(turnName(key)) ? HELD : null));
  },
};

/** Turns, locked against changes. */
export const SHARE_TURN: Question<TurnKey, TurnRow | null> = {
  rank: LOCK_RANK.turn,
  name: turnName,
  queries: (dialect, keys) => [namingTurns(dialect, TURN_COLUMNS, keys, dialect.forShare)],
  answers([rows], keys) {
    const found = byName(rows!);
    return keys.map((key) => found.get(turnName(key)) ?? null);
  },
};

/** The live turns below paths, locked in the order of their paths: the range `p/` ≤ x < `p0`. */
export const LOCK_LIVE_BELOW: Question<{ account: Id; path: string }, TurnRow[]> = {
  rank: LOCK_RANK.turn,
  name: ({ account, path }) => `${account}/${path}`,
  queries: (dialect, keys) =>
    keys.map(({ account, path }) => ({
      sql: `SELECT ${TURN_COLUMNS} FROM turn ${dialect.forceIndex('turn_path')}
            WHERE account = ? AND path >= ? AND path < ? AND live = 1 ORDER BY path ${dialect.forUpdate}`,
      values: [account, `${path}/`, `${path}0`],
    })),
  answers: (rows) => rows.map((found) => found.map(toTurn)),
};

/** The states of turns, read plainly once the locks are held. */
export const TURN_STATE: Question<TurnKey, { generation: number; state: TurnState } | null> = {
  rank: LOCK_RANK.afterLocks,
  name: turnName,
  queries: (dialect, keys) => [namingTurns(dialect, 'account, turn_id, generation, state', keys, '')],
  answers([rows], keys) {
    const found = new Map(
      rows!.map((row) => [
        `${row['account']}/${row['turn_id']}`,
        { generation: row['generation'] as number, state: row['state'] as TurnState },
      ]),
    );
    return keys.map((key) => found.get(turnName(key)) ?? null);
  },
};

/** The live turns of sessions that have a place, by queueSeq. */
export const LIVE_TURNS: Question<SessionKey, LiveTurn[]> = {
  rank: LOCK_RANK.afterLocks,
  name: sessionName,
  queries(dialect, keys) {
    const { sql, values } = inParts(keys);
    const from = `turn ${dialect.forceIndex('turn_live')}`;
    return [
      {
        sql: `SELECT ${LIVE_COLUMNS} FROM ${from} WHERE live = 1 AND ${sql} AND queue_seq IS NOT NULL ORDER BY queue_seq`,
        values,
      },
    ];
  },
  answers([rows], keys) {
    const lines = Map.groupBy(rows!.map(toLiveTurn), (turn) => sessionName(turn.session));
    return keys.map((key) => lines.get(sessionName(key)) ?? []);
  },
};

/** How many turns of sessions are queued, reports left out. */
export const COUNT_QUEUED: Question<SessionKey, number> = {
  rank: LOCK_RANK.afterLocks,
  name: sessionName,
  queries(dialect, keys) {
    const { sql, values } = inParts(keys);
    return [
      {
        sql: `SELECT account, session_id, COUNT(*) AS queued FROM turn ${dialect.forceIndex('turn_live')}
              WHERE live = 1 AND ${sql} AND queue_seq IS NOT NULL AND state = 'queued' AND kind <> 'report'
              GROUP BY account, session_id`,
        values,
      },
    ];
  },
  answers([rows], keys) {
    const counts = new Map(rows!.map((row) => [`${row['account']}/${row['session_id']}`, row['queued'] as number]));
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

function namingTurns(dialect: Dialect, columns: string, keys: readonly TurnKey[], locking: string): Query {
  const { sql, values } = inPairs(
    'account',
    'turn_id',
    keys.map(({ account, turnId }) => [account, turnId] as const),
  );
  return { sql: `SELECT ${columns} FROM turn ${dialect.forceIndex('PRIMARY')} WHERE ${sql} ${locking}`, values };
}

function byName(rows: readonly Row[]): Map<string, TurnRow> {
  return new Map(rows.map((row) => toTurn(row)).map((turn) => [turnName(turn), turn]));
}

function turnName({ account, turnId }: TurnKey): string {
  return `${account}/${turnId}`;
}
