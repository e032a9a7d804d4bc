import mysql2 from 'mysql2';
import { UnavailableError } from '../unavailable.error.js';
import type { OpenDatabase } from './data-source.js';
import { type DatabaseOptions, parseDatabaseUrl } from './database-options.js';

/** How long a pod waits at start for another one that is migrating. */
const MIGRATION_WAIT_S = 120;

/**
 * Brings the tables up to date. Any number of pods may do it at once: on MySQL one after the other, under a lock of the
 * server. MySQL commits each DDL statement by itself, so every migration must be safe to run again after it was cut off.
 * @throws UnavailableError when another pod is still migrating after MIGRATION_WAIT_S
 */
export async function migrate({ dataSource }: OpenDatabase, options: DatabaseOptions): Promise<void> {
  const url = parseDatabaseUrl(options.url);
  if (url.kind === 'sqlite') {
    await dataSource.runMigrations({ transaction: 'each' });
    return;
  }
  // A connection of its own, without the pool's short wait_timeout: the lock lasts as long as it does.
  const { host, port, user, password, database } = url;
  const connectTimeout = options.connectTimeoutMs;
  const holder = mysql2.createConnection({ host, port, user, password, database, connectTimeout });
  holder.on('error', () => undefined);
  try {
    // A lock's name has 64 characters at most; MySQL 9 has no SHA1 any more.
    const lock = `SELECT GET_LOCK(CONCAT('migrate:', RIGHT(DATABASE(), 56)), ${MIGRATION_WAIT_S}) AS got`;
    const [rows] = await holder.promise().query<mysql2.RowDataPacket[]>(lock);
    if (rows[0]?.['got'] !== 1) throw new UnavailableError('database', 'another pod is still migrating the database');
    await dataSource.runMigrations({ transaction: 'none' });
  } finally {
    holder.destroy();
  }
}
