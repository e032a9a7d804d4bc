import { type Id, partitionOf, type Ref, type SessionKey, sessionName, type TurnMove, type TurnState } from '#protocol';
import { ask, type Database, inPairs, placeholders, RunAlone, type SqlPart, type SqlRunner, type Tx } from '#platform';
import {
  type LiveTurn,
  type MoveFacts,
  type NewTurn,
  type SessionLoad,
  type StopOrder,
  type Tombstone,
  type TurnRow,
  Turns,
} from '../turns.js';
import { planMove, type PlannedMove, planRetry, planStopAhead } from './turn-move.js';
import {
  COUNT_QUEUED,
  FIND_TURN,
  inParts,
  LIVE_TURNS,
  LOCK_LIVE_BELOW,
  LOCK_TURN,
  SHARE_TURN,
  TURN_STATE,
} from './turn-questions.js';
import { LIVE_COLUMNS, newTurnRow, toLiveTurn, tombstoneRow, toTurn, TURN_COLUMNS } from './turn-rows.js';
import { INSERT_TURN, UPDATE_TURN } from './turn-writings.js';

/** Sessions or turns asked for in one query. */
const KEYS_PER_QUERY = 1_000;

/** The turns in MySQL, MariaDB or SQLite. */
export class SqlTurns extends Turns {
  constructor(private readonly database: Database) {
    super();
  }

  find(runner: SqlRunner | Tx, account: Id, turnId: Id): Promise<TurnRow | null> {
    return ask(runner, FIND_TURN, { account, turnId });
  }

  lock(tx: Tx, account: Id, turnId: Id): Promise<TurnRow | null> {
    return tx.ask(LOCK_TURN, { account, turnId });
  }

  lockShared(tx: Tx, account: Id, turnId: Id): Promise<TurnRow | null> {
    return tx.ask(SHARE_TURN, { account, turnId });
  }

  lockLiveBelow(tx: Tx, account: Id, path: string): Promise<TurnRow[]> {
    return tx.ask(LOCK_LIVE_BELOW, { account, path });
  }

  stateIn(tx: Tx, account: Id, turnId: Id): Promise<{ generation: number; state: TurnState } | null> {
    return tx.ask(TURN_STATE, { account, turnId });
  }

  insertTombstone(tx: Tx, turn: Tombstone, { nowMs, stop }: { nowMs: number; stop: StopOrder }): TurnRow {
    const row = tombstoneRow(turn, stop, nowMs);
    tx.write(INSERT_TURN, row);
    return row;
  }

  insert(tx: Tx, turn: NewTurn, place: { seq: number; nowMs: number }): TurnRow {
    // A group's other work has the same id: which of them was first, only its commit tells.
    if (tx.written(INSERT_TURN).some((other) => other.account === turn.account && other.turnId === turn.turnId)) {
      throw new RunAlone('the turn is being inserted by this very transaction');
    }
    const row = newTurnRow(turn, place);
    tx.write(INSERT_TURN, row);
    return row;
  }

  move(tx: Tx, row: TurnRow, move: TurnMove, facts: MoveFacts): TurnState {
    return update(tx, row, planMove(row, move, facts));
  }

  retry(tx: Tx, row: TurnRow, { seq, nowMs }: { seq: number; nowMs: number }): void {
    update(tx, row, planRetry(row, seq, nowMs));
    row.generation++;
    row.queueSeq = seq;
  }

  stopAhead(tx: Tx, row: TurnRow, { nowMs, stop }: { nowMs: number; stop: StopOrder }): void {
    update(tx, row, planStopAhead(row, stop, nowMs));
    row.generation++;
  }

  edit(tx: Tx, row: TurnRow, seq: number): void {
    update(tx, row, { state: row.state, columns: [['content_seq', seq]] });
    row.contentSeq = seq;
  }

  noteStopAbove(tx: Tx, row: TurnRow, { turnId, generation }: Ref): void {
    const columns: PlannedMove['columns'] = [
      ['stop_via_turn_id', turnId],
      ['stop_via_generation', generation],
    ];
    update(tx, row, { state: row.state, columns });
  }

  noteRefusal(tx: Tx, row: TurnRow, nowMs: number): void {
    update(tx, row, { state: row.state, columns: [['refused_at', nowMs]] });
  }

  live(runner: SqlRunner | Tx, session: SessionKey): Promise<LiveTurn[]> {
    return ask(runner, LIVE_TURNS, session);
  }

  countQueued(runner: SqlRunner | Tx, session: SessionKey): Promise<number> {
    return ask(runner, COUNT_QUEUED, session);
  }

  countInserted(tx: Tx, session: SessionKey): number {
    return tx.written(INSERT_TURN).filter(counts(session)).length;
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

function update(tx: Tx, row: TurnRow, { state, columns }: PlannedMove): TurnState {
  const { account, turnId, generation, state: before } = row;
  tx.write(UPDATE_TURN, { key: { account, turnId, generation, state: before }, columns });
  row.state = state;
  return state;
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

function counts(session: SessionKey): (turn: TurnRow) => boolean {
  return (turn) => turn.account === session.account && turn.sessionId === session.sessionId && turn.kind !== 'report';
}

function* chunks<T>(keys: readonly T[]): Generator<readonly T[]> {
  for (let from = 0; from < keys.length; from += KEYS_PER_QUERY) yield keys.slice(from, from + KEYS_PER_QUERY);
}
