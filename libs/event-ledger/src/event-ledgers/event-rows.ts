import type { Event, SessionKey } from '#protocol';
import type { Row, SqlRunner, SqlValue } from '#platform';

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

export async function insertEvents(runner: SqlRunner, events: readonly EventInsert[]): Promise<void> {
  for (const chunk of chunks(events)) {
    const rows = Array(chunk.length).fill('(?, ?, ?, ?, ?, ?, ?, ?, ?)').join(', ');
    const values: SqlValue[] = chunk.flatMap((event) => [
      event.session.account,
      event.session.sessionId,
      event.seq,
      event.eventId,
      event.type,
      event.turnId,
      event.generation,
      event.atMs,
      event.json,
    ]);
    await runner.execute(
      `INSERT INTO event (account, session_id, seq, event_id, type, turn_id, generation, at, data) VALUES ${rows}`,
      values,
    );
  }
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
