import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Through which ancestor a turn was stopped, and whether a tombstone has refused its message. */
export class StopsOfFamilies1764600000001 implements MigrationInterface {
  readonly name = 'StopsOfFamilies1764600000001';

  async up(runner: QueryRunner): Promise<void> {
    const sqlite = runner.dataSource.options.type === 'better-sqlite3';
    for (const [column, type] of sqlite ? SQLITE : MYSQL) {
      // MySQL commits by itself, so what was cut off behind one of them is run again.
      if (!(await runner.hasColumn('turn', column)))
        await runner.query(`ALTER TABLE turn ADD COLUMN ${column} ${type}`);
    }
  }

  async down(runner: QueryRunner): Promise<void> {
    for (const [column] of MYSQL) await runner.query(`ALTER TABLE turn DROP COLUMN ${column}`);
  }
}

const MYSQL = [
  ['stop_via_turn_id', 'varchar(128) CHARACTER SET ascii COLLATE ascii_bin NULL'],
  ['stop_via_generation', 'int NULL'],
  ['refused_at', 'bigint NULL'],
] as const;

const SQLITE = [
  ['stop_via_turn_id', 'varchar(128)'],
  ['stop_via_generation', 'integer'],
  ['refused_at', 'bigint'],
] as const;
