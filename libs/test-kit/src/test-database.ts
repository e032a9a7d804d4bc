import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import mysql2 from 'mysql2/promise';
import { EVENT_LEDGER_SCHEMA } from '#event-ledger';
import {
  DATABASE_DEFAULTS,
  type DatabaseDeps,
  type DatabaseOptions,
  migrate,
  openDatabase,
  type OpenDatabase,
  StepPoints,
  SystemClock,
  SystemRandomness,
} from '#platform';
import { TURN_LIFECYCLE_SCHEMA } from '#turn-lifecycle';

export type DatabaseKind = 'mysql' | 'sqlite';
export const DATABASE_KINDS: readonly DatabaseKind[] = ['mysql', 'sqlite'];

/** All tables of the product. */
export const ALL_SCHEMAS = [EVENT_LEDGER_SCHEMA, TURN_LIFECYCLE_SCHEMA];

/** An empty database of one test file, gone with `drop`. */
export class TestDatabase {
  private readonly opened: OpenDatabase[] = [];

  private constructor(
    readonly kind: DatabaseKind,
    readonly url: string,
    private readonly remove: () => Promise<void>,
  ) {}

  /** @throws Error when TEST_DATABASE_URL, a MySQL server on which databases may be created, is needed and missing */
  static async create(kind: DatabaseKind): Promise<TestDatabase> {
    return kind === 'mysql' ? TestDatabase.createOnServer() : TestDatabase.createInFolder();
  }

  private static async createOnServer(): Promise<TestDatabase> {
    const server = process.env['TEST_DATABASE_URL'];
    if (!server) throw new Error('TEST_DATABASE_URL must name a MySQL server: mysql://user:password@host:port');
    const name = `butler_test_${new SystemRandomness().id().replaceAll('-', '')}`;
    const url = new URL(server);
    url.pathname = `/${name}`;
    const run = async (statement: string): Promise<void> => {
      const connection = await mysql2.createConnection(server);
      await connection.query(statement);
      await connection.end();
    };
    await run(`CREATE DATABASE ${name}`);
    return new TestDatabase('mysql', url.href, () => run(`DROP DATABASE ${name}`));
  }

  private static createInFolder(): TestDatabase {
    const folder = mkdtempSync(join(tmpdir(), 'butler-test-'));
    return new TestDatabase('sqlite', `sqlite:${join(folder, 'new', 'ledger.sqlite')}`, async () =>
      rmSync(folder, { recursive: true }),
    );
  }

  /** Opens it once more (SQLite: the first time only). */
  async open(options: Partial<DatabaseOptions> = {}, deps: Partial<DatabaseDeps> = {}): Promise<OpenDatabase> {
    const open = await openDatabase({ ...DATABASE_DEFAULTS, url: this.url, ...options }, ALL_SCHEMAS, {
      clock: new SystemClock(),
      randomness: new SystemRandomness(),
      steps: new StepPoints(),
      ...deps,
    });
    this.opened.push(open);
    return open;
  }

  /** Opens it with all tables in place. */
  async openMigrated(options: Partial<DatabaseOptions> = {}, deps: Partial<DatabaseDeps> = {}): Promise<OpenDatabase> {
    const open = await this.open(options, deps);
    await migrate(open, { ...DATABASE_DEFAULTS, url: this.url, ...options });
    return open;
  }

  /** Closes what was opened here and removes the database. */
  async drop(): Promise<void> {
    for (const { database, dataSource } of this.opened) if (dataSource.isInitialized) await database.close();
    await this.remove();
  }
}
