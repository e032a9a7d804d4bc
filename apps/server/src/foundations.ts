import { Logger } from '@nestjs/common';
import {
  type Clock,
  type Coordination,
  type Database,
  DATABASE_DEFAULTS,
  memoryCoordination,
  migrate,
  openDatabase,
  openRedisCoordination,
  type Randomness,
  type Settings,
  type StepPoints,
} from '#platform';
import { EVENT_LEDGER_SCHEMA } from '#event-ledger';
import { TURN_LIFECYCLE_SCHEMA } from '#turn-lifecycle';

const REDIS_START_TIMEOUT_MS = 10_000;

/** The servers that a pod stands on, open. */
export interface Foundations {
  database: Database;
  coordination: Coordination;
}

/**
 * Opens the ledger, brings its tables up to date, and opens coordination.
 * @throws UnavailableError, DatabaseInUseError, Error; nothing is left open then
 */
export async function openFoundations(
  settings: Settings,
  deps: { clock: Clock; randomness: Randomness; steps: StepPoints },
): Promise<Foundations> {
  const options = {
    ...DATABASE_DEFAULTS,
    url: settings.databaseUrl,
    poolSize: settings.dbPoolSize,
    leaseTtlMs: settings.leaseTtlMs,
  };
  const open = await openDatabase(options, [EVENT_LEDGER_SCHEMA, TURN_LIFECYCLE_SCHEMA], deps);
  try {
    await migrate(open, options);
    return { database: open.database, coordination: await openCoordination(settings, deps) };
  } catch (error) {
    await open.database.close();
    throw error;
  }
}

async function openCoordination(
  settings: Settings,
  { clock, randomness }: { clock: Clock; randomness: Randomness },
): Promise<Coordination> {
  const prefix = settings.redisKeyPrefix;
  if (settings.redisUrl === null) return memoryCoordination(prefix, clock);
  const logger = new Logger('Redis');
  return openRedisCoordination(
    {
      prefix,
      url: settings.redisUrl,
      startTimeoutMs: REDIS_START_TIMEOUT_MS,
      onEviction: settings.redisEvictionCheck,
      onWarning: (message) => logger.warn(message),
    },
    clock,
    randomness,
  );
}
