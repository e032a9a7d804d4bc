import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DatabaseInUseError, parseDatabaseUrl } from '#platform';
import { TestDatabase } from '#test-kit';

/** Opens the file in another process as a pod does, says what came of it, and keeps it. */
const HOLDER = `
  const db = new (require('better-sqlite3'))(process.argv[1], { timeout: 0 });
  try {
    db.pragma('locking_mode = EXCLUSIVE');
    db.pragma('journal_mode = WAL');
    db.exec('BEGIN EXCLUSIVE; COMMIT');
    process.stdout.write('held');
  } catch (error) {
    process.stdout.write(error.code);
  }
  setInterval(() => undefined, 1000);
`;

async function hold(path: string): Promise<{ child: ChildProcess; answer: string }> {
  const child = spawn(process.execPath, ['-e', HOLDER, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [answer] = (await once(child.stdout!, 'data')) as [Buffer];
  return { child, answer: answer.toString() };
}

async function end(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL');
  await once(child, 'exit');
}

describe('the SQLite file', () => {
  let test: TestDatabase;
  let path: string;

  beforeAll(async () => {
    test = await TestDatabase.create('sqlite');
    const url = parseDatabaseUrl(test.url);
    if (url.kind === 'sqlite') path = url.path;
  });

  afterAll(() => test.drop());

  it('is refused at once to a second process, and free when that one is killed', async () => {
    const first = await test.openMigrated();
    const refused = await hold(path);
    expect(refused.answer).toBe('SQLITE_BUSY');
    await end(refused.child);
    await first.database.close();

    const { child, answer } = await hold(path);
    expect(answer).toBe('held');
    await expect(test.open()).rejects.toThrow(DatabaseInUseError);
    await expect(test.open()).rejects.toThrow(`${path} is in use by another process: stop that one`);
    await end(child);

    const { database } = await test.open();
    expect(await database.query('SELECT COUNT(*) AS events FROM event')).toEqual([{ events: 0 }]);
    await database.close();
  });

  it('is refused when this process has it open already', async () => {
    const { database } = await test.open();
    await expect(test.open()).rejects.toThrow(DatabaseInUseError);
    await database.close();
  });

  it.each([
    ['below a file', (file: string) => `${file}/ledger.sqlite`],
    ['that is a folder', (file: string) => dirname(file)],
    ['that is no database', (file: string) => file],
  ])('%s is refused in one line that names the setting', async (_, pathOf) => {
    const garbage = `${path}.garbage`;
    await writeFile(garbage, 'no database at all, but long enough to be taken for the head of one '.repeat(4));
    const refused = await test.open({ url: `sqlite:${pathOf(garbage)}` }).catch((error: Error) => error.message);
    expect(refused).toMatch(/^DATABASE_URL: the SQLite file .* cannot be opened: .*\. Name another one$/);
    await rm(garbage);
  });

  it('survives a power cut with every commit, by a write to the disk each', async () => {
    const { database } = await test.open();
    expect(await database.query('PRAGMA synchronous')).toEqual([{ synchronous: 2 }]);
    expect(await database.query('PRAGMA journal_mode')).toEqual([{ journal_mode: 'wal' }]);
    await database.close();
  });

  it('is not needed: a database in memory keeps nothing', async () => {
    const one = await test.openMigrated({ url: 'sqlite::memory:' });
    const two = await test.openMigrated({ url: 'sqlite::memory:' });
    expect(await two.database.query('SELECT COUNT(*) AS events FROM event')).toEqual([{ events: 0 }]);
    await one.database.close();
    await two.database.close();
  });
});

describe('DATABASE_URL', () => {
  it('names a server or a file', () => {
    expect(parseDatabaseUrl('sqlite:.butler/ledger.sqlite')).toEqual({ kind: 'sqlite', path: '.butler/ledger.sqlite' });
    expect(parseDatabaseUrl('sqlite:///var/lib/x')).toEqual({ kind: 'sqlite', path: '/var/lib/x' });
    expect(parseDatabaseUrl('mysql://user%40x:p%2Fw@[::1]:3307/butler')).toEqual({
      kind: 'mysql',
      host: '::1',
      port: 3307,
      user: 'user@x',
      password: 'p/w',
      database: 'butler',
    });
    expect(parseDatabaseUrl('mysql://host/butler')).toMatchObject({ port: 3306, user: '', password: '' });
  });

  it.each(['', 'sqlite:', 'mysql://host', 'mysql:///x', 'postgres://host/x', 'mysql://'])('refuses %j', (url) => {
    expect(() => parseDatabaseUrl(url)).toThrow('DATABASE_URL must be');
  });
});
