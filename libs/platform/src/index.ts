export { type ChannelListener, Channels } from './channels.js';
export { MemoryChannels } from './channels/memory.js';
export { Clock, SystemClock, type Timer } from './clock.js';
export { type Coordination, COORDINATION, memoryCoordination, openRedisCoordination } from './coordination.js';
export { CoordinationHealth } from './coordination-health.js';
export { Drain } from './drain.js';
export { LoopLag } from './loop-lag.js';
export { MemoryStore, type StoreCopy } from './memory-store.js';
export { grow, holds } from './memory-steps.js';
export { PodIdentity } from './pod-identity.js';
export { PresumedDead } from './presumed-dead.js';
export { Randomness, SystemRandomness } from './randomness.js';
export { RedisConnection, type RedisConnectionOptions } from './redis/redis-connection.js';
export type { Script } from './redis/redis-scripts.js';
export { loadSettings, SettingsError } from './settings/load-settings.js';
export { Settings } from './settings/settings.js';
export { Database } from './sql/database.js';
export { DatabaseInUseError } from './sql/database-in-use.error.js';
export {
  DATABASE_DEFAULTS,
  type DatabaseDeps,
  type DatabaseOptions,
  type DatabaseUrl,
  parseDatabaseUrl,
  type SqlSchema,
} from './sql/database-options.js';
export { openDatabase, type OpenDatabase } from './sql/data-source.js';
export type { Dialect } from './sql/dialect.js';
export { ask, LOCK_RANK, RunAlone, WRITE_RANK } from './sql/grouping.js';
export { migrate } from './sql/migrate.js';
export { inPairs, placeholders, type SqlPart } from './sql/pairs.js';
export type { RawTx, Work } from './sql/transaction-group.js';
export { TRANSACTION_ATTEMPTS } from './sql/transaction-attempts.js';
export {
  HELD,
  type Query,
  type Question,
  type Row,
  type SqlRunner,
  type SqlValue,
  type Statement,
  type Tx,
  type Writing,
} from './sql/tx.js';
export { StepPoints } from './step-points.js';
export { UnavailableError } from './unavailable.error.js';
export { cutBefore } from './surrogates.js';
export { wellFormed, wellFormedJson } from './well-formed.js';
