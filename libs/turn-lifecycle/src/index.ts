export { TURN_LIFECYCLE_SCHEMA } from './schema.js';
export { TurnLifecycleModule } from './turn-lifecycle.module.js';
export { TurnRecords } from './turn-records.js';
export { MemoryTurnRecords } from './turn-records/memory.js';
export { RedisTurnRecords } from './turn-records/redis.js';
export {
  type LiveTurn,
  type MoveFacts,
  type NewTurn,
  type SessionLoad,
  type StopOrder,
  type Tombstone,
  type TurnRow,
  Turns,
} from './turns.js';
export { SqlTurns } from './turns/sql.js';
