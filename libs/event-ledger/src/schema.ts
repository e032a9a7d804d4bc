import type { SqlSchema } from '#platform';
import { eventEntity } from './event.entity.js';
import { SessionAndEvent1764500000000 } from './migrations/1764500000000-session-and-event.js';
import { SpawnedSessions1764600000000 } from './migrations/1764600000000-spawned-sessions.js';
import { sessionEntity } from './session.entity.js';

/** The ledger's tables: `session` and `event`. */
export const EVENT_LEDGER_SCHEMA: SqlSchema = {
  entities: (kind) => [sessionEntity(kind), eventEntity(kind)],
  migrations: [SessionAndEvent1764500000000, SpawnedSessions1764600000000],
};
