import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Ids compare byte by byte: under the default collation account `ACC` would read the rows of `acc`. */
export class SessionAndEvent1764500000000 implements MigrationInterface {
  readonly name = 'SessionAndEvent1764500000000';

  async up(runner: QueryRunner): Promise<void> {
    const sqlite = runner.dataSource.options.type === 'better-sqlite3';
    for (const statement of sqlite ? SQLITE : MYSQL) await runner.query(statement);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE IF EXISTS event');
    await runner.query('DROP TABLE IF EXISTS session');
  }
}

const ID = 'varchar(128) CHARACTER SET ascii COLLATE ascii_bin';
const LONG = 'longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin';
const TABLE = 'ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin';

const MYSQL = [
  `CREATE TABLE IF NOT EXISTS session (
    account ${ID} NOT NULL,
    session_id ${ID} NOT NULL,
    next_seq bigint NOT NULL,
    owner_epoch bigint NOT NULL,
    title ${LONG} NULL,
    metadata ${LONG} NULL,
    digest ${ID} NOT NULL,
    created_at bigint NOT NULL,
    last_activity_at bigint NOT NULL,
    PRIMARY KEY (account, session_id),
    KEY session_activity (account, last_activity_at, session_id)
  ) ${TABLE}`,
  `CREATE TABLE IF NOT EXISTS event (
    account ${ID} NOT NULL,
    session_id ${ID} NOT NULL,
    seq bigint NOT NULL,
    event_id varchar(191) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    type varchar(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    turn_id ${ID} NULL,
    generation int NULL,
    at bigint NOT NULL,
    data ${LONG} NOT NULL,
    PRIMARY KEY (account, session_id, seq)
  ) ${TABLE}`,
];

const SQLITE = [
  `CREATE TABLE IF NOT EXISTS "session" (
    "account" varchar(128) NOT NULL,
    "session_id" varchar(128) NOT NULL,
    "next_seq" bigint NOT NULL,
    "owner_epoch" bigint NOT NULL,
    "title" text,
    "metadata" text,
    "digest" varchar(128) NOT NULL,
    "created_at" bigint NOT NULL,
    "last_activity_at" bigint NOT NULL,
    PRIMARY KEY ("account", "session_id")
  )`,
  'CREATE INDEX IF NOT EXISTS "session_activity" ON "session" ("account", "last_activity_at", "session_id")',
  `CREATE TABLE IF NOT EXISTS "event" (
    "account" varchar(128) NOT NULL,
    "session_id" varchar(128) NOT NULL,
    "seq" bigint NOT NULL,
    "event_id" varchar(191) NOT NULL,
    "type" varchar(32) NOT NULL,
    "turn_id" varchar(128),
    "generation" integer,
    "at" bigint NOT NULL,
    "data" text NOT NULL,
    PRIMARY KEY ("account", "session_id", "seq")
  )`,
];
