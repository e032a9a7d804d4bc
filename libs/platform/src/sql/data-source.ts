import { existsSync, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Pool } from 'mysql2';
import { DataSource, type DataSourceOptions } from 'typeorm';
import type { Clock } from '../clock.js';
import { UnavailableError } from '../unavailable.error.js';
import type { Database } from './database.js';
import { DatabaseInUseError } from './database-in-use.error.js';
import {
  type DatabaseDeps,
  type DatabaseOptions,
  type DatabaseUrl,
  parseDatabaseUrl,
  type SqlSchema,
} from './database-options.js';
import { MysqlDatabase } from './databases/mysql.js';
import { SqliteDatabase } from './databases/sqlite.js';
import { SQLITE_NOW_FUNCTION } from './dialects.js';
import { mysqlDriver, poolSettings, sessionSettings } from './mysql-session.js';
import { sqliteCode, type SqliteHandle } from './sqlite-handle.js';

/** A database with the DataSource that carries it; `database.close()` closes both. */
export interface OpenDatabase {
  database: Database;
  dataSource: DataSource;
}

/**
 * Opens the database of `options.url` with these tables. Changes nothing in it: `migrate` does.
 * @throws UnavailableError, DatabaseInUseError; Error for a bad URL or refused credentials
 */
export async function openDatabase(
  options: DatabaseOptions,
  schemas: readonly SqlSchema[],
  deps: DatabaseDeps,
): Promise<OpenDatabase> {
  const url = parseDatabaseUrl(options.url);
  const kind = url.kind;
  const shared = {
    entities: schemas.flatMap((schema) => schema.entities(kind)),
    migrations: schemas.flatMap((schema) => schema.migrations),
    synchronize: false,
    logging: false,
  };
  if (url.kind === 'sqlite') {
    const dataSource = await initializeSqlite({ ...shared, ...sqliteOptions(url.path, deps.clock) }, url.path);
    return { dataSource, database: new SqliteDatabase(dataSource, options, deps) };
  }
  const dataSource = new DataSource({ ...shared, ...mysqlOptions(url, options) });
  await initializeMysql(dataSource, options);
  return { dataSource, database: new MysqlDatabase(dataSource, options, deps) };
}

function mysqlOptions(url: Extract<DatabaseUrl, { kind: 'mysql' }>, options: DatabaseOptions): DataSourceOptions {
  return {
    // For MySQL as well: it only adds how MariaDB spells defaults when TypeORM compares tables with entities.
    type: 'mariadb',
    host: url.host,
    port: url.port,
    username: url.user,
    password: url.password,
    database: url.database,
    driver: mysqlDriver(options),
    charset: 'utf8mb4_bin',
    timezone: 'Z',
    poolSize: options.poolSize,
    connectTimeout: options.connectTimeoutMs,
    // BIGINT as numbers; they are seqs and ms, far below 2^53.
    supportBigNumbers: true,
    bigNumberStrings: false,
    // So that a transaction begins together with its first statement. Values are always parameters.
    multipleStatements: true,
    extra: poolSettings(options),
  };
}

async function initializeMysql(dataSource: DataSource, options: DatabaseOptions): Promise<void> {
  try {
    await dataSource.initialize();
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (code?.startsWith('ER_') && code !== 'ER_CON_COUNT_ERROR') {
      throw new Error(`the database refuses: ${message}. Check DATABASE_URL; the database must exist`, {
        cause: error,
      });
    }
    throw new UnavailableError(
      'database',
      `no connection to the database: ${message}. Check DATABASE_URL and that the server runs`,
      { cause: error },
    );
  }
  // A connection whose settings are refused is dropped in silence: say it here, once.
  const { pool } = dataSource.driver as unknown as { pool: Pool };
  try {
    await pool.promise().query(sessionSettings(options));
  } catch (error) {
    await dataSource.destroy();
    throw error;
  }
}

async function initializeSqlite(options: DataSourceOptions, path: string): Promise<DataSource> {
  try {
    return await new DataSource(options).initialize();
  } catch (error) {
    if (error instanceof DatabaseInUseError) throw error;
    const why = (error as Error).message;
    throw new Error(`DATABASE_URL: the SQLite file ${path} cannot be opened: ${why}. Name another one`, {
      cause: error,
    });
  }
}

function sqliteOptions(path: string, clock: Clock): DataSourceOptions {
  if (path !== ':memory:') makeFolder(dirname(path));
  return {
    type: 'better-sqlite3',
    database: path,
    // Nobody waits for another process: the file is either ours or refused.
    timeout: 0,
    prepareDatabase: (handle: SqliteHandle) => prepareSqlite(handle, path, clock),
  };
}

/** One folder, not its parents: those being away is more likely a slip than a wish. */
function makeFolder(folder: string): void {
  try {
    if (!existsSync(folder)) mkdirSync(folder);
  } catch (error) {
    const why = (error as Error).message;
    throw new Error(`DATABASE_URL: the folder ${folder} of the SQLite file cannot be made: ${why}`, { cause: error });
  }
}

/** Takes the file for this process alone, before anything is read; the operating system frees it when the process ends. */
function prepareSqlite(handle: SqliteHandle, path: string, clock: Clock): void {
  try {
    handle.pragma('locking_mode = EXCLUSIVE');
    handle.pragma('journal_mode = WAL');
    // An accepted message must survive a power cut, not only a crash: NORMAL would lose the last commits.
    handle.pragma('synchronous = FULL');
    handle.exec('BEGIN EXCLUSIVE; COMMIT');
    handle.function(SQLITE_NOW_FUNCTION, { deterministic: false }, () => clock.now());
  } catch (error) {
    handle.close();
    if (/^SQLITE_(BUSY|LOCKED)/.test(sqliteCode(error) ?? '')) throw new DatabaseInUseError(path, { cause: error });
    throw error;
  }
}
