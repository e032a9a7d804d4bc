import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DATABASE_DEFAULTS, migrate, type OpenDatabase } from '#platform';
import { DATABASE_KINDS, TestDatabase } from '#test-kit';

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
