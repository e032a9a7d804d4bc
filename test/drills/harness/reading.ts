import type { Event, EventType, Id, TurnState } from '#protocol';
import type { ServersPlace } from '../../e2e/harness/places.js';
import type { ScriptCall } from '../../e2e/harness/script-calls.js';
import { ACCOUNT } from './load.js';

interface ReadTurn {
  turnId: Id;
  session: Id;
  state: TurnState;
}

/** All that a drill has left behind: the ledger's rows and what the script agent really ran. */
export interface Reading {
  sessions: ReadonlyMap<Id, Event[]>;
  turns: ReadonlyMap<Id, ReadTurn>;
  calls: readonly ScriptCall[];
}

interface EventRow {
  session: string;
  seq: number;
  type: EventType;
  turnId: string | null;
  generation: number | null;
  at: number;
  data: string;
}

export async function readAll(place: ServersPlace, calls: readonly ScriptCall[]): Promise<Reading> {
  const rows = await place.query<EventRow>(
    `SELECT session_id AS session, seq, type, turn_id AS turnId, generation, at, data FROM event
     WHERE account = '${ACCOUNT}' ORDER BY session_id, seq`,
  );
  const turns = await place.query<ReadTurn>(
    `SELECT turn_id AS turnId, session_id AS session, state FROM turn WHERE account = '${ACCOUNT}'`,
  );
  const sessions = new Map<Id, Event[]>();
  for (const { session, ...row } of rows) {
    const event = { ...row, at: new Date(row.at).toISOString(), data: JSON.parse(row.data) as unknown } as Event;
    const events = sessions.get(session);
    if (events) events.push(event);
    else sessions.set(session, [event]);
  }
  return { sessions, turns: new Map(turns.map((turn) => [turn.turnId, turn])), calls };
}

/** How many turns still live. */
export async function liveTurns(place: ServersPlace): Promise<number> {
  const [row] = await place.query<{ live: number }>('SELECT COUNT(*) AS live FROM turn WHERE live = 1');
  return row!.live;
}

export const timeOf = ({ at }: Event): number => Date.parse(at);
