import { expect, test } from '@jest/globals';
import { Caller } from '../e2e/harness/caller.js';
import { onServers } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';
import { SeededRandom } from '../simulation/seeded-random.js';
import { Clients, type Said } from './harness/client.js';
import { leasesOf } from './harness/leases.js';
import { repetitions } from './harness/repeated-steps.js';
import { sessionFaults } from './harness/session-faults.js';

const SESSIONS = 200;
const MESSAGES = 20;
const AT_ONCE = 24;
const SHORT_LEASE = { LEASE_TTL_MS: '3000', LEASE_RENEW_MS: '1000', SWEEP_INTERVAL_MS: '500', LOG_LEVEL: 'warn' };
const LIMIT_MS = 120_000;
const SEED = 20;
const caller = new Caller();

test(
  'one of three pods is killed and another stopped for longer than its lease: every message is completed, in order, and no recorded step runs again',
  onServers(async (stage) => {
    const random = new SeededRandom(SEED);
    const pods = await stage.start(['killed', 'stalled', 'steady'], SHORT_LEASE);
    const [killed, stalled, steady] = pods;
    const clients = new Clients(caller, pods, () => random.fraction());
    const all = messages(random);
    const posting = clients.sayAll(all, AT_ONCE);
    await Promise.race([posting, until('half of it', () => clients.accepted >= all.length / 2, LIMIT_MS)]);

    await Promise.all([killed.kill(), stalled.freeze()]);
    const held = await leasesOf(stage.place, stalled.name);
    expect(held.length).toBeGreaterThan(0);
    await until('its leases run out', async () => (await leasesOf(stage.place, stalled.name)).length === 0);
    await until('one of them is taken over', async () => {
      const taken = new Set(await leasesOf(stage.place, steady.name));
      return held.some((session) => taken.has(session));
    });
    stalled.thaw();

    await posting;
    await until('every turn ends', async () => (await stage.place.query(LIVE)).length === 0, LIMIT_MS);
    const calls = Map.groupBy(stage.calls(), (call) => call.session);
    for (let at = 0; at < SESSIONS; at++) {
      const session = `s${at}`;
      const turns = await caller.turns(steady, session);
      expect(turns.filter((turn) => turn.state === 'completed')).toHaveLength(MESSAGES);
      const events = await caller.events(steady, session);
      expect({ session, faults: sessionFaults(events) }).toEqual({ session, faults: [] });
      const again = repetitions(events, calls.get(session) ?? []);
      expect(again.filter(({ isLate, call }) => !isLate || call.pod !== stalled.name)).toEqual([]);
      // Between its last check and the act it can only have had one step.
      expect(again.length).toBeLessThanOrEqual(1);
    }
    expect(clients.resends).toBeGreaterThan(0);
  }),
  LIMIT_MS * 2,
);

const LIVE = 'SELECT 1 FROM turn WHERE live = 1 LIMIT 1';

/** All messages in an order that mixes the sessions; some have work that a kill can meet in the middle. */
function messages(random: SeededRandom): Said[] {
  const all: Said[] = [];
  for (let at = 0; at < SESSIONS * MESSAGES; at++) {
    const session = `s${at % SESSIONS}`;
    all.push({ session, turnId: `${session}.${Math.floor(at / SESSIONS)}`, content: script(session, at) });
  }
  for (let at = all.length - 1; at > 0; at--) {
    const other = Math.floor(random.fraction() * (at + 1));
    [all[at], all[other]] = [all[other]!, all[at]!];
  }
  return all;
}

function script(session: string, at: number): string {
  if (at % 8 !== 0) return `say ${at}`;
  const append = `tool append ${JSON.stringify({ file: session, line: `${at}`, ms: 20, repeatable: at % 16 === 0 })}`;
  return `say first\n${append}\nsleep 30\nsay ${at}`;
}
