import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { KeyNames, type Ref, type SessionKey } from '#protocol';
import {
  type Database,
  Drain,
  memoryCoordination,
  MemoryStore,
  Settings,
  StepPoints,
  SystemClock,
  SystemRandomness,
} from '#platform';
import { ChannelLiveEvents } from '#event-ledger';
import { AdmissionGate } from '#intake';
import { Lease } from '#session-lock';
import { composePod, lonelyCoordination, TestDatabase } from '#test-kit';
import { Agent, type TurnContext, TurnRunner } from '#turn-runner';

/** One model step, no tools. */
class OneStep extends Agent {
  override async run(turn: TurnContext): Promise<void> {
    await turn.model(async ({ say }) => {
      say('hello');
      return {};
    });
  }
}

const clock = new SystemClock();
const randomness = new SystemRandomness();
const steps = new StepPoints();
const keys = new KeyNames('t:');
const store = new MemoryStore(clock);
let test: TestDatabase;
let database: Database;
let admission: AdmissionGate;
let runner: TurnRunner;
let sent = 0;

beforeAll(async () => {
  test = await TestDatabase.create('mysql');
  ({ database } = await test.openMigrated());
  countPackets(database);
  const live = new ChannelLiveEvents(memoryCoordination('t:', clock, store).channels, keys);
  ({ admission, runner } = composePod({
    ...{ database, live, clock, randomness, steps, settings: new Settings(), drain: new Drain(), agent: new OneStep() },
    ...lonelyCoordination(clock),
  }));
});

afterAll(() => test.drop());

/** Every packet to the server goes through this one method. */
function countPackets(counted: Database): void {
  const inner = counted as unknown as { run(...args: unknown[]): Promise<unknown> };
  const run = inner.run.bind(counted);
  inner.run = (...args) => {
    sent++;
    return run(...args);
  };
}

async function packets(work: () => Promise<unknown>): Promise<number> {
  const before = sent;
  await work();
  return sent - before;
}

const post = (session: SessionKey, turnId: string | null) =>
  admission.admit({ ...session, turnId, initiator: 'ann', content: 'hi', mode: 'enqueue', metadata: null });

function lease(session: SessionKey, epoch: number): Lease {
  return new Lease(session, { podId: 'p', boot: 'b', epoch }, clock, clock.monotonicMs() + 60_000);
}

// These are the figures of docs/architecture.md, "What a call costs": change both.
it('the round trips to the ledger are those that the docs tell', async () => {
  const session: SessionKey = { account: 'acc', sessionId: randomness.id() };
  const ids = [randomness.id(), randomness.id(), randomness.id()];
  const refs: Ref[] = ids.map((turnId) => ({ turnId, generation: 1 }));
  const { signal } = new AbortController();
  expect(await packets(() => post(session, ids[0]!))).toBe(2); // a new session
  expect(await packets(() => post(session, ids[1]!))).toBe(2); // a known one
  expect(await packets(() => post(session, ids[1]!))).toBe(2); // the same again: COMMIT of nothing
  expect(await packets(() => post(session, null))).toBe(2);
  const owned = lease(session, 1);
  // Start 3, step 2, finish 2.
  expect(await packets(() => runner.run(owned, refs[0]!, signal))).toBe(7); // a new owner, with its claim
  expect(await packets(() => runner.run(owned, refs[1]!, signal))).toBe(7); // its next turn
});
