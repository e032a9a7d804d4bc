import type { MigrationInterface, QueryRunner } from 'typeorm';

/** `state` is in no index: with it in the path's, concurrent moves deadlocked by the thousand. */
export class Turn1764500000001 implements MigrationInterface {
  readonly name = 'Turn1764500000001';

  async up(runner: QueryRunner): Promise<void> {
    const sqlite = runner.dataSource.options.type === 'better-sqlite3';
    for (const statement of sqlite ? SQLITE : MYSQL) await runner.query(statement);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP TABLE IF EXISTS turn');
  }
}

const ASCII = 'CHARACTER SET ascii COLLATE ascii_bin';
const TEXT = 'CHARACTER SET utf8mb4 COLLATE utf8mb4_bin';
const ID = `varchar(128) ${ASCII}`;
const WORD = `varchar(16) ${ASCII}`;

const MYSQL = [
  `CREATE TABLE IF NOT EXISTS turn (
    account ${ID} NOT NULL,
    turn_id ${ID} NOT NULL,
    session_id ${ID} NOT NULL,
    part smallint NOT NULL,
    live tinyint NULL,
    path varchar(1200) ${ASCII} NOT NULL,
    parent_session_id ${ID} NULL,
    parent_turn_id ${ID} NULL,
    parent_generation int NULL,
    state ${WORD} NOT NULL,
    generation int NOT NULL,
    queue_seq bigint NULL,
    accepted_seq bigint NULL,
    content_seq bigint NULL,
    mode ${WORD} NOT NULL,
    kind ${WORD} NOT NULL,
    initiator varchar(256) ${TEXT} NULL,
    metadata longtext ${TEXT} NULL,
    digest ${ID} NULL,
    attempts int NOT NULL,
    absorbed_by_turn_id ${ID} NULL,
    absorbed_by_generation int NULL,
    stop_by varchar(256) ${TEXT} NULL,
    stop_reason longtext ${TEXT} NULL,
    stop_at bigint NULL,
    error longtext ${TEXT} NULL,
    accepted_at bigint NULL,
    queued_at bigint NULL,
    started_at bigint NULL,
    ended_at bigint NULL,
    PRIMARY KEY (account, turn_id),
    KEY turn_live (live, part, account, session_id, queue_seq),
    KEY turn_order (account, session_id, queue_seq),
    KEY turn_path (account, path)
  ) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`,
];

const SQLITE = [
  `CREATE TABLE IF NOT EXISTS "turn" (
    "account" varchar(128) NOT NULL,
    "turn_id" varchar(128) NOT NULL,
    "session_id" varchar(128) NOT NULL,
    "part" smallint NOT NULL,
    "live" tinyint,
    "path" varchar(1200) NOT NULL,
    "parent_session_id" varchar(128),
    "parent_turn_id" varchar(128),
    "parent_generation" integer,
    "state" varchar(16) NOT NULL,
    "generation" integer NOT NULL,
    "queue_seq" bigint,
    "accepted_seq" bigint,
    "content_seq" bigint,
    "mode" varchar(16) NOT NULL,
    "kind" varchar(16) NOT NULL,
    "initiator" varchar(256),
    "metadata" text,
    "digest" varchar(128),
    "attempts" integer NOT NULL,
    "absorbed_by_turn_id" varchar(128),
    "absorbed_by_generation" integer,
    "stop_by" varchar(256),
    "stop_reason" text,
    "stop_at" bigint,
    "error" text,
    "accepted_at" bigint,
    "queued_at" bigint,
    "started_at" bigint,
    "ended_at" bigint,
    PRIMARY KEY ("account", "turn_id")
  )`,
  'CREATE INDEX IF NOT EXISTS "turn_live" ON "turn" ("live", "part", "account", "session_id", "queue_seq")',
  'CREATE INDEX IF NOT EXISTS "turn_order" ON "turn" ("account", "session_id", "queue_seq")',
  'CREATE INDEX IF NOT EXISTS "turn_path" ON "turn" ("account", "path")',
];
