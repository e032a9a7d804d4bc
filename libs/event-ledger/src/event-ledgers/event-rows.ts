import { type Event, type SessionKey, sessionName } from '#protocol';
import { LOCK_RANK, type Question, type Row, type Statement, type Writing, WRITE_RANK } from '#platform';

/** One INSERT holds at most so many rows and, unless it is one row, so many bytes of data. */
const INSERT_MAX_ROWS = 1_000;
const INSERT_MAX_BYTES = 4 * 1024 * 1024;

/** An event about to be stored. */
export interface EventInsert {
  session: SessionKey;
  seq: number;
  eventId: string;
  type: string;
  turnId: string | null;
  generation: number | null;
  atMs: number;
  json: string;
}

export const EVENT_COLUMNS = 'seq, type, turn_id, generation, at, data';

export function toEvent(row: Row): Event {
  return {
    seq: row['seq'],
    type: row['type'],
    turnId: row['turn_id'],
    generation: row['generation'],
    at: new Date(row['at'] as number).toISOString(),
    data: JSON.parse(row['data'] as string),
  } as Event;
}

/** Events to be stored: one statement for as many as it may hold. */
export const INSERT_EVENT: Writing<EventInsert> = {
  rank: WRITE_RANK.event,
  statements: (rows) => [...chunks(rows)].map(insertEvents),
};

/** Single events by seq, asked for by many at once. */
export const EVENT_AT: Question<{ session: SessionKey; seq: number }, Event | null> = {
  rank: LOCK_RANK.afterLocks,
  name: ({ session, seq }) => `${sessionName(session)}/${seq}`,
  queries: (_dialect, keys) => [
    {
      sql: `SELECT account, session_id, ${EVENT_COLUMNS} FROM event
            WHERE ${keys.map(() => '(account = ? AND session_id = ? AND seq = ?)').join(' OR ')}`,
      values: keys.flatMap(({ session, seq }) => [session.account, session.sessionId, seq]),
    },
  ],
  answers([rows], keys) {
    const found = new Map(rows!.map((row) => [`${row['account']}/${row['session_id']}/${row['seq']}`, toEvent(row)]));
    return keys.map((key) => found.get(this.name(key)) ?? null);
  },
};

function insertEvents(events: readonly EventInsert[]): Statement {
  const rows = Array(events.length).fill('(?, ?, ?, ?, ?, ?, ?, ?, ?)').join(', ');
  return {
    sql: `INSERT INTO event (account, session_id, seq, event_id, type, turn_id, generation, at, data) VALUES ${rows}`,
    values: events.flatMap((event) => [
      event.session.account,
      event.session.sessionId,
      event.seq,
      event.eventId,
      event.type,
      event.turnId,
      event.generation,
      event.atMs,
      event.json,
    ]),
    matches: events.length,
  };
}

function* chunks(events: readonly EventInsert[]): Generator<EventInsert[]> {
  let chunk: EventInsert[] = [];
  let size = 0;
  for (const event of events) {
    if (chunk.length > 0 && (chunk.length === INSERT_MAX_ROWS || size + event.json.length > INSERT_MAX_BYTES)) {
      yield chunk;
      chunk = [];
      size = 0;
    }
    chunk.push(event);
    size += event.json.length;
  }
  if (chunk.length > 0) yield chunk;
}
