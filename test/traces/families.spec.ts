import { Logger } from '@nestjs/common';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import mysql2 from 'mysql2/promise';
import { TestDatabase } from '#test-kit';
import { sessionFaults } from '../crash/harness/session-faults.js';
import { SeededRandom } from '../simulation/seeded-random.js';
import { FamilyPod, Kin } from './ground/family-pod.js';
import { FailedAttempts } from './ground/storm-pod.js';

/** Connections that write at once, half of them a pod's. */
const CONNECTIONS = 30;
const OPERATIONS = 3_000;
const FAMILIES = 3;
/** How often the ledger is looked at in the middle of it all. */
const LOOK_EVERY = 50;

let test: TestDatabase;
let server: mysql2.Connection;
let pods: [FamilyPod, FamilyPod];
let kin: Kin;
const failed = new FailedAttempts();
const random = new SeededRandom(7);

beforeAll(async () => {
  Logger.overrideLogger(false);
  test = await TestDatabase.create('mysql');
  const options = { poolSize: CONNECTIONS / 2 };
  const first = await test.openMigrated(options, { steps: failed });
  const second = await test.open(options, { steps: failed });
  kin = new Kin(random, FAMILIES);
  pods = [new FamilyPod('pod-0', first.database, random, kin), new FamilyPod('pod-1', second.database, random, kin)];
  server = await mysql2.createConnection(test.url);
});
afterAll(async () => {
  await server.end();
  await test.drop();
});

async function ask<R>(sql: string): Promise<R[]> {
  const [rows] = await server.query(sql);
  return rows as R[];
}

/** What the server has counted since it was started, whoever caused it. */
async function serverDeadlocks(): Promise<number> {
  const [row] = await ask<{ Value: string }>("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'");
  return Number(row?.Value ?? 0);
}

/** Turns that go on although one above them is stopped or is to stop. */
const ESCAPED = `SELECT low.turn_id, low.state, high.turn_id AS above FROM turn high JOIN turn low
  ON low.account = high.account AND low.path > CONCAT(high.path, '/') AND low.path < CONCAT(high.path, '0')
  WHERE high.state IN ('stopped', 'stop_requested') AND low.live = 1 AND low.state <> 'stop_requested'`;

/** Children that ended by themselves under a parent that was never stopped in this generation, and never reported. */
const UNHEARD = `SELECT kid.turn_id FROM turn kid JOIN turn parent
  ON parent.account = kid.account AND parent.turn_id = kid.parent_turn_id
  WHERE kid.kind = 'user' AND kid.generation = 1 AND kid.state IN ('completed', 'failed')
    AND parent.state = 'completed' AND parent.generation = kid.parent_generation
    AND NOT EXISTS (SELECT 1 FROM turn report WHERE report.account = kid.account
      AND report.turn_id = CONCAT('r~', SUBSTRING(kid.turn_id, 3)))`;

/** One thing that may happen: a user's act, or some work at a session. */
async function act(at: number): Promise<void> {
  const pod = pods[at % 2]!;
  const what = random.fraction();
  if (what < 0.05) return pod.say();
  if (what < 0.13) return pod.stop();
  if (what < 0.17) return pod.retry();
  if (what < 0.19) return pod.edit();
  return pod.work(at % 3 === 0);
}

/** Runs CONNECTIONS workers at once, each taking the next operation when it is done. */
async function storm(): Promise<void> {
  const next = Array.from({ length: OPERATIONS }, (_, at) => at).values();
  const work = async (): Promise<void> => {
    for (const at of next) {
      await act(at);
      if (at % LOOK_EVERY === 0) expect(await ask(ESCAPED)).toEqual([]);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
}

it('no deadlock of families is left unrepeated, nobody escapes a stop above, each child reports once, and all ends', async () => {
  const before = await serverDeadlocks();
  await storm();
  const deadlocks = (await serverDeadlocks()) - before;
  process.stdout.write(
    `${OPERATIONS} operations from ${CONNECTIONS} connections over ${FAMILIES} families: ${FamilyPod.tell(pods)}\n` +
      `attempts repeated: ${failed.tell()}; deadlocks on the server: ${deadlocks}\n`,
  );
  expect(await ask(ESCAPED)).toEqual([]);
  await pods[0].drainAll();
  expect(await ask('SELECT turn_id FROM turn WHERE live = 1')).toEqual([]);
  expect(await ask(UNHEARD)).toEqual([]);

  const reported: string[] = [];
  for (const session of kin.sessions) {
    const events = await pods[0].ledger.events(session, 0, 100_000);
    expect({ session, faults: sessionFaults(events) }).toEqual({ session, faults: [] });
    for (const event of events) if (event.type === 'child.reported') reported.push(event.data.child.turnId);
  }
  expect(reported).toHaveLength(new Set(reported).size);
  const [absorbed] = await ask<{ turns: number }>(
    "SELECT COUNT(*) AS turns FROM turn WHERE kind = 'report' AND absorbed_by_turn_id IS NOT NULL",
  );
  const often = { reported: reported.length, absorbed: absorbed!.turns };
  process.stdout.write(`${often.reported} reports, ${often.absorbed} taken in by the parent that still ran\n`);
  for (const [what, count] of Object.entries(often)) expect([what, count > 2]).toEqual([what, true]);
  for (const what of [
    'post enqueue: done',
    'stop: stopped',
    'stop: stop_requested',
    'retry: done',
    'ended',
    'yielded',
  ]) {
    expect([what, FamilyPod.count(pods, what) > 2]).toEqual([what, true]);
  }
}, 90_000);
