import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Which session's turn opened a session for a child; null: a user did. */
export class SpawnedSessions1764600000000 implements MigrationInterface {
  readonly name = 'SpawnedSessions1764600000000';

  async up(runner: QueryRunner): Promise<void> {
    // MySQL commits by itself, so what was cut off behind this statement is run again.
    if (await runner.hasColumn('session', 'spawned_by')) return;
    const sqlite = runner.dataSource.options.type === 'better-sqlite3';
    const id = sqlite ? 'varchar(128)' : 'varchar(128) CHARACTER SET ascii COLLATE ascii_bin NULL';
    await runner.query(`ALTER TABLE session ADD COLUMN spawned_by ${id}`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('ALTER TABLE session DROP COLUMN spawned_by');
  }
}
