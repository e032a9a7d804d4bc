import { isTerminal, partitionOf, type Ref, type TurnState } from '#protocol';
import {
  type Dialect,
  placeholders,
  type SqlValue,
  type Statement,
  wellFormedJson,
  type Writing,
  WRITE_RANK,
} from '#platform';
import type { TurnRow } from '../turns.js';

const INSERT_COLUMNS =
  'account, turn_id, session_id, part, live, path, parent_session_id, parent_turn_id, parent_generation, state, ' +
  'generation, queue_seq, accepted_seq, content_seq, mode, kind, initiator, metadata, digest, attempts, accepted_at, queued_at, ' +
  'stop_by, stop_reason, stop_at, ended_at';

/** New turns, in the order of their key: two groups that insert the same ones wait for each other in one direction. */
export const INSERT_TURN: Writing<TurnRow> = {
  rank: WRITE_RANK.newTurn,
  statements(rows) {
    const sorted = [...rows].sort((a, b) => (key(a) < key(b) ? -1 : 1));
    const values = sorted.map(insertValues);
    const places = `(${Array(values[0]!.length).fill('?').join(', ')})`;
    return [
      {
        sql: `INSERT INTO turn (${INSERT_COLUMNS}) VALUES ${sorted.map(() => places).join(', ')}`,
        values: values.flat(),
        matches: sorted.length,
      },
    ];
  },
};

/** One move of a locked turn: what it was, and the columns that change. */
export interface TurnUpdate {
  key: Ref & { account: string; state: TurnState };
  columns: [string, SqlValue][];
}

/** Moves, those of one turn in the order in which they were made: one statement for all that make the same one. */
export const UPDATE_TURN: Writing<TurnUpdate> = {
  rank: WRITE_RANK.movedTurn,
  statements: (updates, dialect) =>
    rounds(updates).flatMap((round) => [...alike(round)].map((moved) => updateAll(dialect, moved))),
};

/** The first moves of all turns, then the second ones, and so on. */
function rounds(updates: readonly TurnUpdate[]): TurnUpdate[][] {
  const made = new Map<string, number>();
  const found: TurnUpdate[][] = [];
  for (const update of updates) {
    const round = made.get(key(update.key)) ?? 0;
    made.set(key(update.key), round + 1);
    (found[round] ??= []).push(update);
  }
  return found;
}

/** The same columns for turns of one account in the same generation and state. */
function alike(updates: readonly TurnUpdate[]): Iterable<TurnUpdate[]> {
  const name = ({ key: { account, generation, state }, columns }: TurnUpdate): string =>
    JSON.stringify([account, generation, state, columns]);
  return Map.groupBy(updates, name).values();
}

/** By the key: left to itself the server may choose another index, or walk a small table from end to end. */
function updateAll(dialect: Dialect, updates: TurnUpdate[]): Statement {
  const [{ key: of, columns }] = updates as [TurnUpdate];
  return {
    sql: `UPDATE turn ${dialect.forceIndex('PRIMARY')} SET ${columns.map(([column]) => `${column} = ?`).join(', ')}
          WHERE account = ? AND turn_id IN (${placeholders(updates.length)}) AND generation = ? AND state = ?`,
    values: [
      ...columns.map(([, value]) => value),
      ...[of.account, ...updates.map((update) => update.key.turnId), of.generation, of.state],
    ],
    matches: updates.length,
  };
}

function insertValues(turn: TurnRow): SqlValue[] {
  const { account, turnId, sessionId, parent, metadata } = turn;
  return [
    ...[account, turnId, sessionId, partitionOf({ account, sessionId }), isTerminal(turn.state) ? null : 1, turn.path],
    ...[parent?.sessionId ?? null, parent?.turnId ?? null, parent?.generation ?? null],
    ...[turn.state, turn.generation, turn.queueSeq, turn.acceptedSeq, turn.contentSeq, turn.mode, turn.kind],
    ...[turn.initiator, metadata && wellFormedJson(metadata), turn.digest, turn.attempts],
    ...[turn.acceptedAtMs, turn.queuedAtMs],
    ...[turn.stop?.by ?? null, turn.stop?.reason ?? null, turn.stop?.atMs ?? null, turn.endedAtMs],
  ];
}

function key({ account, turnId }: { account: string; turnId: string }): string {
  return `${account}/${turnId}`;
}
