import type { EntitySchema, MigrationInterface } from 'typeorm';
import type { Clock } from '../clock.js';
import type { Randomness } from '../randomness.js';
import type { StepPoints } from '../step-points.js';
import type { Dialect } from './dialect.js';

export interface DatabaseDeps {
  clock: Clock;
  randomness: Randomness;
  /** Reached as `database.committing` and `database.committed`: a test that throws there loses the COMMIT's answer. */
  steps: StepPoints;
}

/** The tables of one noun. Column types differ between the databases, so entities are made for one of them. */
export interface SqlSchema {
  entities: (kind: Dialect['kind']) => EntitySchema[];
  migrations: (new () => MigrationInterface)[];
}

/** What a database is opened with. All but `url` bound something, in ms where the name says so. */
export interface DatabaseOptions {
  /** `mysql://user:password@host:port/database` or `sqlite:<path>`; `sqlite::memory:` keeps nothing. */
  url: string;
  /** MySQL: connections at most. */
  poolSize: number;
  /** The lease's time to live: the server ends a MySQL connection that is silent for a third of it. */
  leaseTtlMs: number;
  /** How long a row lock is waited for, in whole seconds. */
  lockWaitS: number;
  /** How long a call waits for a connection. */
  connectionWaitMs: number;
  connectTimeoutMs: number;
  /** How long one statement may take before its connection is given up. */
  statementTimeoutMs: number;
}

export const DATABASE_DEFAULTS: Omit<DatabaseOptions, 'url'> = {
  poolSize: 10,
  leaseTtlMs: 30_000,
  lockWaitS: 2,
  connectionWaitMs: 5_000,
  connectTimeoutMs: 4_000,
  statementTimeoutMs: 10_000,
};

export type DatabaseUrl =
  | { kind: 'sqlite'; path: string }
  | { kind: 'mysql'; host: string; port: number; user: string; password: string; database: string };

/** @throws Error that names DATABASE_URL and what it may be */
export function parseDatabaseUrl(url: string): DatabaseUrl {
  if (url.startsWith('sqlite:')) {
    const path = url.slice('sqlite:'.length).replace(/^\/\//, '');
    if (path) return { kind: 'sqlite', path };
  }
  if (url.startsWith('mysql:') && URL.canParse(url)) {
    const { hostname, port, username, password, pathname } = new URL(url);
    const database = decodeURIComponent(pathname.slice(1));
    if (hostname && database) {
      return {
        kind: 'mysql',
        // An IPv6 address stands in brackets in a URL only.
        host: hostname.replace(/^\[(.*)\]$/, '$1'),
        port: Number(port || 3306),
        user: decodeURIComponent(username),
        password: decodeURIComponent(password),
        database,
      };
    }
  }
  throw new Error('DATABASE_URL must be mysql://user:password@host:port/database or sqlite:<path>');
}
