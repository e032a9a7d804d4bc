import { Logger } from '@nestjs/common';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { randomInt } from 'node:crypto';
import type { Database } from '#platform';
import { Conversation, type ConversationReport } from './conversation.js';
import { openLedger } from './ledger.js';
import { LedgerClock } from './world.js';

/** More for a longer search, e.g. CONVERSATIONS=5000 npm run test:simulation */
const CONVERSATIONS = Number(process.env.CONVERSATIONS ?? 120);
const FIRST_SEED = Number(process.env.SEED ?? 1);
/** Another one each time; it is told when something fails, and SEED plays it again. */
const FRESH_SEED = randomInt(1_000_000, 2 ** 31);
const FRESH = 10;

const clock = new LedgerClock();
let database: Database;

beforeAll(async () => {
  Logger.overrideLogger(false);
  database = await openLedger(clock);
});
afterAll(() => database.close());

async function converse(seed: number, ledger = database): Promise<ConversationReport & { trace: string[] }> {
  const conversation = new Conversation(seed, ledger, {
    crashes: seed % 3 === 0 ? 0 : 1,
    freezes: seed % 4 === 0 ? 1 : 0,
  });
  clock.world = conversation.world;
  return { ...(await conversation.run()), trace: conversation.world.trace };
}

it(
  `every message runs once, is absorbed once or is stopped, and every model input tells each once, in ${CONVERSATIONS} conversations`,
  async () => {
    const counts: Record<string, number> = {};
    let [steps, crashes, freezes] = [0, 0, 0];
    for (let nth = 0; nth < CONVERSATIONS + FRESH; nth++) {
      const seed = nth < CONVERSATIONS ? FIRST_SEED + nth : FRESH_SEED + nth;
      const report = await converse(seed);
      steps += report.steps;
      crashes += report.crashes;
      freezes += report.freezes;
      for (const [what, times] of Object.entries(report.counts)) counts[what] = (counts[what] ?? 0) + times;
    }
    process.stdout.write(
      `${CONVERSATIONS + FRESH} conversations, ${steps} steps, ${JSON.stringify({ crashes, freezes, ...counts })}\n`,
    );
    for (const what of ['post', 'edit', 'stop', 'retry', 'turn.completed', 'turn.absorbed', 'turn.stopped']) {
      expect([what, counts[what]]).toEqual([what, expect.any(Number)]);
      expect(counts[what]).toBeGreaterThan(CONVERSATIONS / 8);
    }
  },
  CONVERSATIONS * 1_000,
);

it('a seed plays exactly the same again', async () => {
  const traces: string[][] = [];
  for (let time = 0; time < 2; time++) {
    const ledger = await openLedger(clock);
    traces.push((await converse(4, ledger)).trace);
    await ledger.close();
  }
  expect(traces[0]!.length).toBeGreaterThan(500);
  expect(traces[1]).toEqual(traces[0]);
});
