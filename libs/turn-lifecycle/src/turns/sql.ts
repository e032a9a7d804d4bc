import { type Id, partitionOf, type Ref, type SessionKey, sessionName, type TurnMove, type TurnState } from '#protocol';
import { type Database, inPairs, placeholders, type SqlPart, type SqlRunner, type Tx, wellFormedJson } from '#platform';
import { type LiveTurn, type MoveFacts, type NewTurn, type SessionLoad, type TurnRow, Turns } from '../turns.js';
import { planMove } from './turn-move.js';
import { LIVE_COLUMNS, toLiveTurn, toTurn, TURN_COLUMNS } from './turn-rows.js';

/** Sessions or turns asked for in one query. */
const KEYS_PER_QUERY = 1_000;

/** The turns in MySQL, MariaDB or SQLite. */
export class SqlTurns extends Turns {
  constructor(private readonly database: Database) {
    super();
  }

  async find(runner: SqlRunner, account: Id, turnId: Id): Promise<TurnRow | null> {
    return findTurn(runner, account, turnId, '');
  }

  async lock(tx: Tx, account: Id, turnId: Id): Promise<TurnRow | null> {
    return findTurn(tx, account, turnId, tx.dialect.forUpdate);
  }

  async insert(tx: Tx, turn: NewTurn): Promise<void> {
    const { account, turnId, sessionId, parent } = turn;
    await tx.execute(
      `INSERT INTO turn (account, turn_id, session_id, part, live, path, parent_session_id, parent_turn_id,
         parent_generation, state, generation, mode, kind, initiator, metadata, digest, attempts)
       VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, 'queued', 1, ?, ?, ?, ?, ?, 0)`,
      [
        account,
        turnId,
        sessionId,
        partitionOf({ account, sessionId }),
        turn.path,
        parent?.sessionId ?? null,
        parent?.turnId ?? null,
        parent?.generation ?? null,
        turn.mode,
        turn.kind,
        turn.initiator,
        turn.metadata && wellFormedJson(turn.metadata),
        turn.digest,
      ],
    );
  }

  async place(tx: Tx, turn: { account: Id; turnId: Id }, seq: number, nowMs: number): Promise<void> {
    const matched = await tx.execute(
      `UPDATE turn SET queue_seq = ?, accepted_seq = ?, content_seq = ?, accepted_at = ?, queued_at = ?
       WHERE account = ? AND turn_id = ? AND queue_seq IS NULL AND live = 1`,
      [seq, seq, seq, nowMs, nowMs, turn.account, turn.turnId],
    );
    if (matched !== 1) throw new Error(`turn ${turn.turnId} was not inserted by this transaction`);
  }

  async move(tx: Tx, row: TurnRow, move: TurnMove, facts: MoveFacts): Promise<TurnState> {
    const { state, columns } = planMove(row, move, facts);
    const matched = await tx.execute(
      `UPDATE turn SET ${columns.map(([column]) => `${column} = ?`).join(', ')}
       WHERE account = ? AND turn_id = ? AND generation = ? AND state = ?`,
      [...columns.map(([, value]) => value), row.account, row.turnId, row.generation, row.state],
    );
    if (matched !== 1) throw new Error(`turn ${row.turnId} is another than the row that was locked`);
    return state;
  }

  async live(runner: SqlRunner, session: SessionKey): Promise<LiveTurn[]> {
    const rows = await runner.query(
      `SELECT ${LIVE_COLUMNS} FROM turn ${runner.dialect.forceIndex('turn_live')}
       WHERE live = 1 AND part = ? AND account = ? AND session_id = ? AND queue_seq IS NOT NULL ORDER BY queue_seq`,
      [partitionOf(session), session.account, session.sessionId],
    );
    return rows.map(toLiveTurn);
  }

  async countQueued(runner: SqlRunner, session: SessionKey): Promise<number> {
    const [row] = await runner.query<{ queued: number }>(
      `SELECT COUNT(*) AS queued FROM turn ${runner.dialect.forceIndex('turn_live')}
       WHERE live = 1 AND part = ? AND account = ? AND session_id = ? AND queue_seq IS NOT NULL AND state = 'queued'
         AND kind <> 'report'`,
      [partitionOf(session), session.account, session.sessionId],
    );
    return row?.queued ?? 0;
  }

  async loads(sessions: readonly SessionKey[]): Promise<SessionLoad[]> {
    const loads = new Map<string, SessionLoad>();
    for (const some of chunks(sessions)) {
      for (const row of await this.readLoads(some)) {
        const name = sessionName({ account: row.account, sessionId: row.session_id });
        const load = loads.get(name) ?? { queued: 0, running: null };
        if (row.state === 'queued') load.queued = row.turns;
        else load.running = runningOf(row);
        loads.set(name, load);
      }
    }
    return sessions.map((session) => loads.get(sessionName(session)) ?? { queued: 0, running: null });
  }

  /** One row for each state of each session. Beside `queued` there is one turn at most (I2), so MAX names it. */
  private readLoads(sessions: readonly SessionKey[]): Promise<LoadRow[]> {
    const named = inParts(sessions);
    return this.database.query<LoadRow>(
      `SELECT account, session_id, state, COUNT(*) AS turns, MAX(turn_id) AS turn_id, MAX(generation) AS generation,
         MAX(attempts) AS attempts, MAX(started_at) AS started_at
       FROM turn ${this.database.dialect.forceIndex('turn_live')}
       WHERE live = 1 AND queue_seq IS NOT NULL AND ${named.sql} GROUP BY account, session_id, state`,
      named.values,
    );
  }

  async list(session: SessionKey, after: number, limit: number, state: TurnState | null): Promise<TurnRow[]> {
    const rows = await this.database.query(
      `SELECT ${TURN_COLUMNS} FROM turn ${this.database.dialect.forceIndex('turn_order')}
       WHERE account = ? AND session_id = ? AND queue_seq > ? ${state ? 'AND state = ?' : ''}
       ORDER BY queue_seq LIMIT ?`,
      [session.account, session.sessionId, after, ...(state ? [state] : []), limit],
    );
    return rows.map(toTurn);
  }

  async liveIn(
    partitions: readonly number[],
    queuedBeforeMs: number,
    after: LiveTurn | null,
    limit: number,
  ): Promise<LiveTurn[]> {
    const place = behind(partitions, after);
    if (place === null) return [];
    const rows = await this.database.query(
      `SELECT ${LIVE_COLUMNS} FROM turn ${this.database.dialect.forceIndex('turn_live')}
       WHERE live = 1 AND ${place.sql} AND queue_seq IS NOT NULL AND queued_at <= ?
       ORDER BY part, account, session_id, queue_seq LIMIT ?`,
      [...place.values, queuedBeforeMs, limit],
    );
    return rows.map(toLiveTurn);
  }

  async states(turns: readonly (Ref & { account: Id })[]): Promise<(TurnState | null)[]> {
    const states = new Map<string, { generation: number; state: TurnState }>();
    for (const some of chunks(turns)) {
      const named = inPairs(
        'account',
        'turn_id',
        some.map(({ account, turnId }) => [account, turnId] as const),
      );
      const rows = await this.database.query<{ account: Id; turn_id: Id; generation: number; state: TurnState }>(
        `SELECT account, turn_id, generation, state FROM turn WHERE ${named.sql}`,
        named.values,
      );
      for (const row of rows) states.set(`${row.account}/${row.turn_id}`, row);
    }
    return turns.map(({ account, turnId, generation }) => {
      const found = states.get(`${account}/${turnId}`);
      return found?.generation === generation ? found.state : null;
    });
  }

  async nowMs(): Promise<number> {
    const [row] = await this.database.query<{ now_ms: number }>(`SELECT ${this.database.dialect.nowMs()} AS now_ms`);
    return (row as { now_ms: number }).now_ms;
  }
}

interface LoadRow {
  account: Id;
  session_id: Id;
  state: TurnState;
  turns: number;
  turn_id: Id;
  generation: number;
  attempts: number;
  started_at: number;
}

function runningOf(row: LoadRow): SessionLoad['running'] {
  return {
    turnId: row.turn_id,
    generation: row.generation,
    state: row.state,
    attempts: row.attempts,
    startedAtMs: row.started_at,
  };
}

async function findTurn(runner: SqlRunner, account: Id, turnId: Id, locking: string): Promise<TurnRow | null> {
  const [row] = await runner.query(`SELECT ${TURN_COLUMNS} FROM turn WHERE account = ? AND turn_id = ? ${locking}`, [
    account,
    turnId,
  ]);
  return row ? toTurn(row) : null;
}

/** These sessions, each with its partition: ranges of the index of live turns. */
function inParts(sessions: readonly SessionKey[]): SqlPart {
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

/** What stands behind `after` in these partitions, as ranges of the index of live turns; null: nothing can. */
function behind(partitions: readonly number[], after: LiveTurn | null): SqlPart | null {
  const whole = (parts: readonly number[]): SqlPart => ({
    sql: `part IN (${placeholders(parts.length)})`,
    values: [...parts],
  });
  if (after === null) return partitions.length > 0 ? whole(partitions) : null;
  const at = partitionOf(after.session);
  const ranges: SqlPart[] = [];
  if (partitions.includes(at)) {
    const { account, sessionId } = after.session;
    ranges.push(
      {
        sql: '(part = ? AND account = ? AND session_id = ? AND queue_seq > ?)',
        values: [at, account, sessionId, after.queueSeq],
      },
      { sql: '(part = ? AND account = ? AND session_id > ?)', values: [at, account, sessionId] },
      { sql: '(part = ? AND account > ?)', values: [at, account] },
    );
  }
  const later = partitions.filter((part) => part > at);
  if (later.length > 0) ranges.push(whole(later));
  if (ranges.length === 0) return null;
  return { sql: `(${ranges.map(({ sql }) => sql).join(' OR ')})`, values: ranges.flatMap(({ values }) => values) };
}

function* chunks<T>(keys: readonly T[]): Generator<readonly T[]> {
  for (let from = 0; from < keys.length; from += KEYS_PER_QUERY) yield keys.slice(from, from + KEYS_PER_QUERY);
}
