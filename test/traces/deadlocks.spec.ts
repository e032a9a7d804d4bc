import { Logger } from '@nestjs/common';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import mysql2 from 'mysql2/promise';
import type { EventDraft, SessionKey } from '#protocol';
import { TestDatabase } from '#test-kit';
import { Invariants } from '../simulation/invariants.js';
import { SeededRandom } from '../simulation/seeded-random.js';
import { InterruptedDatabase } from './ground/interrupted-database.js';
import { FailedAttempts, StormPod } from './ground/storm-pod.js';

/** Connections that write at once, half of them a pod's; in each pod every third commits alone, the others in groups. */
const CONNECTIONS = 24;
const OPERATIONS = 2_400;
const SESSIONS = 8;
/** Sessions that nobody has used yet, each opened by many at once. */
const NEW_SESSIONS = 60;
/** More than a pod lets wait for rows at once. */
const HELD_ROWS = 6;

const text: EventDraft = {
  type: 'model.text',
  turn: null,
  data: { step: 'model:1', attempt: 1, offset: 0, text: 'word' },
};

let test: TestDatabase;
let pods: StormPod[];
let server: mysql2.Connection;
const failed = new FailedAttempts();
const random = new SeededRandom(3);

beforeAll(async () => {
  Logger.overrideLogger(false);
  test = await TestDatabase.create('mysql');
  const options = { poolSize: CONNECTIONS / 2 };
  const opened = [await test.openMigrated(options, { steps: failed }), await test.open(options, { steps: failed })];
  pods = opened.map(({ database }, at) => new StormPod(`pod-${at}`, database, random));
  server = await mysql2.createConnection(test.url);
});
afterAll(async () => {
  await server.end();
  await test.drop();
});

async function one(sql: string): Promise<Record<string, number | string>[]> {
  const [rows] = await server.query<(mysql2.RowDataPacket & Record<string, number | string>)[]>(sql);
  return rows;
}

/** What the server has counted since it was started, whoever caused it. */
async function serverDeadlocks(): Promise<number> {
  const [row] = await one("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'");
  return Number(row?.['Value'] ?? 0);
}

/** Runs the given works from CONNECTIONS workers at once, each taking the next one when it is done. */
async function storm(works: (() => Promise<void>)[]): Promise<void> {
  const next = works[Symbol.iterator]();
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      for (const work of next) await work();
    }),
  );
}

async function expectWhole(sessions: readonly SessionKey[]): Promise<void> {
  const gaps = `SELECT session_id FROM event GROUP BY account, session_id HAVING COUNT(*) <> MAX(seq)`;
  const heads = `SELECT s.session_id FROM session s JOIN (SELECT account, session_id, MAX(seq) AS last FROM event
    GROUP BY account, session_id) e USING (account, session_id) WHERE s.next_seq <> e.last + 1`;
  const twoRun = `SELECT session_id FROM turn WHERE live = 1 AND state = 'running' GROUP BY account, session_id
    HAVING COUNT(*) > 1`;
  const noPlace = `SELECT t.turn_id FROM turn t LEFT JOIN event e ON e.account = t.account AND e.session_id = t.session_id
    AND e.seq = t.queue_seq AND e.turn_id = t.turn_id AND e.type = 'message.accepted' WHERE e.seq IS NULL`;
  for (const sql of [gaps, heads, twoRun, noPlace]) expect(await one(sql)).toEqual([]);
  await new Invariants(pods[0]!.ledger, sessions).check();
}

it('no deadlock and no lock wait of the path is left unrepeated, and all it leaves behind is whole', async () => {
  const sessions = Array.from({ length: SESSIONS }, (_, at) => ({ account: 'storm', sessionId: `s${at}` }));
  const before = await serverDeadlocks();
  const works = Array.from({ length: OPERATIONS }, (_, at) => {
    const pod = pods[at % 2]!;
    const alone = at % 3 === 0;
    return async () => {
      if (random.chance(0.2)) return pod.resend(alone);
      await (random.chance(0.3) ? pod.post(random.pick(sessions), alone) : pod.run(random.pick(sessions), alone));
    };
  });
  await storm(works);
  const outcomes = `${OPERATIONS} operations from ${CONNECTIONS} connections over ${SESSIONS} sessions: ${StormPod.tell(pods)}`;
  const deadlocks = (await serverDeadlocks()) - before;
  process.stdout.write(`${outcomes}\nattempts repeated: ${failed.tell()}; deadlocks on the server: ${deadlocks}\n`);
  await expectWhole(sessions);
  await Promise.all(sessions.map((session) => pods[0]!.drain(session)));
  const invariants = new Invariants(pods[0]!.ledger, sessions);
  await invariants.check();
  expect(invariants.allEnded).toBe(true);
  expect(StormPod.count(pods, 'post')).toBeGreaterThan(OPERATIONS / 10);
  for (const outcome of ['ended', 'yielded', 'behind', 'resent']) {
    expect(StormPod.count(pods, outcome)).toBeGreaterThan(10);
  }
}, 60_000);

it('a session that many open at once is opened once, and every message is taken in', async () => {
  const sessions = Array.from({ length: NEW_SESSIONS }, (_, at) => ({ account: 'new', sessionId: `n${at}` }));
  const works = sessions.flatMap((session) =>
    Array.from({ length: CONNECTIONS }, (_, at) => () => pods[at % 2]!.post(session, at % 3 === 0)),
  );
  const before = failed.total;
  await storm(works);
  process.stdout.write(
    `${NEW_SESSIONS} sessions opened by ${CONNECTIONS} at once: ${failed.total - before} repeated\n`,
  );
  await expectWhole(sessions);
  expect(await one(`SELECT COUNT(*) AS turns FROM turn WHERE account = 'new'`)).toEqual([{ turns: works.length }]);
}, 60_000);

it.each(['in a group', 'alone'])('a session that another pod opens while one looks for it %s is found', async (how) => {
  const session = { account: 'met', sessionId: how.replace(' ', '-') };
  const meets = new InterruptedDatabase(pods[0]!.database, () => pods[1]!.post(session, false));
  const pod = new StormPod('looking', meets, random);
  await pod.post(session, how === 'alone');
  await expectWhole([session]);
  expect(await pods[0]!.ledger.lastSeqs([session])).toEqual([2]);
});

it('sessions whose rows another client holds do not delay the other sessions of their group', async () => {
  const [pod] = pods;
  const all = Array.from({ length: 2 * HELD_ROWS }, (_, at) => ({ account: 'held', sessionId: `h${at}` }));
  for (const session of all) await pod!.post(session, false);
  const [held, free] = [all.slice(0, HELD_ROWS), all.slice(HELD_ROWS)];
  const order: string[] = [];
  const append = async (session: SessionKey): Promise<void> => {
    const writer = { kind: 'producer' } as const;
    await pod!.ledger.appendGrouped(session, { id: random.id(), writer, events: [text] });
    order.push(session.sessionId);
  };
  const names = held.map(({ sessionId }) => sessionId);
  // These rows and no others.
  await server.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED');
  await server.query('START TRANSACTION');
  for (const name of names) {
    const row = `session FORCE INDEX (PRIMARY) WHERE account = 'held' AND session_id = '${name}'`;
    await server.query(`SELECT 1 FROM ${row} FOR UPDATE`);
  }
  const waiting = held.map(append);
  for (let group = 0; group < 3; group++) await Promise.all(free.map(append));
  expect(order.filter((sessionId) => names.includes(sessionId))).toEqual([]);
  await server.query('COMMIT');
  await Promise.all(waiting);
  expect(order.slice(-HELD_ROWS).sort()).toEqual(names);
  expect(order).toHaveLength(4 * HELD_ROWS);
});
