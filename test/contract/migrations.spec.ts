import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DATABASE_DEFAULTS, migrate, type OpenDatabase } from '#platform';
import { ALL_SCHEMAS, DATABASE_KINDS, TestDatabase } from '#test-kit';
import { SqlTurns } from '#turn-lifecycle';

/** What TypeORM would still do to make the tables equal the entities. */
async function differences({ dataSource }: OpenDatabase): Promise<string[]> {
  const { upQueries } = await dataSource.driver.createSchemaBuilder().log();
  return upQueries.map(({ query }) => query);
}

describe.each(DATABASE_KINDS)('migrations on %s', (kind) => {
  let test: TestDatabase;

  beforeAll(async () => {
    test = await TestDatabase.create(kind);
  });

  afterAll(() => test.drop());

  it('make the tables that the entities describe, also when run again', async () => {
    const open = await test.openMigrated();
    expect(await differences(open)).toEqual([]);
    await migrate(open, { ...DATABASE_DEFAULTS, url: test.url });
    expect(await differences(open)).toEqual([]);
    await open.database.close();
  });
});

describe.each(DATABASE_KINDS)('a ledger of the version before, on %s,', (kind) => {
  it('keeps its turns and gets what this version needs', async () => {
    const test = await TestDatabase.create(kind);
    const open = await test.openMigrated();
    const { database, dataSource } = open;
    for (const _ of ['families', 'sessions']) await dataSource.undoLastMigration({ transaction: 'none' });
    await database.execute(
      `INSERT INTO turn (account, turn_id, session_id, part, live, path, state, generation, queue_seq, mode, kind, attempts)
       VALUES ('acc', 't', 's', 0, 1, 't', 'queued', 1, 1, 'enqueue', 'user', 0)`,
    );
    await migrate(open, { ...DATABASE_DEFAULTS, url: test.url });
    expect(await differences(open)).toEqual([]);
    const turn = await new SqlTurns(database).find(database, 'acc', 't');
    expect(turn).toMatchObject({ turnId: 't', state: 'queued', stop: null, refusedAtMs: null });
    await test.drop();
  });
});

describe('migrations of many pods at once', () => {
  it('run once, one pod after the other', async () => {
    const test = await TestDatabase.create('mysql');
    const pods = await Promise.all([1, 2, 3, 4].map(() => test.open({ poolSize: 2 })));
    await Promise.all(pods.map((pod) => migrate(pod, { ...DATABASE_DEFAULTS, url: test.url })));
    for (const pod of pods) expect(await differences(pod)).toEqual([]);
    const [rows] = await Promise.all([pods[0]!.database.query('SELECT name FROM migrations')]);
    expect(rows).toHaveLength(ALL_SCHEMAS.flatMap(({ migrations }) => migrations).length);
    await test.drop();
  });

  it('go on where a pod died between the statements of one', async () => {
    const test = await TestDatabase.create('mysql');
    const first = await test.openMigrated();
    // MySQL commits each statement by itself: the second table and the note that it is done are missing.
    await first.database.execute('DROP TABLE event');
    await first.database.execute('DELETE FROM migrations');
    await migrate(first, { ...DATABASE_DEFAULTS, url: test.url });
    expect(await differences(first)).toEqual([]);
    await test.drop();
  });

  it.each(DATABASE_KINDS)('can be taken back on %s', async (kind) => {
    const test = await TestDatabase.create(kind);
    const { database, dataSource } = await test.openMigrated();
    for (const { migrations } of ALL_SCHEMAS)
      for (const _ of migrations) await dataSource.undoLastMigration({ transaction: 'none' });
    await expect(database.query('SELECT * FROM session')).rejects.toThrow(/session/);
    await test.drop();
  });
});
