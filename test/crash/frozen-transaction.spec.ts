import { expect, test } from '@jest/globals';
import type { Event } from '#protocol';
import { Caller } from '../e2e/harness/caller.js';
import type { ServersPlace } from '../e2e/harness/places.js';
import type { Facts } from '../e2e/harness/pod-orders.js';
import { onServers } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';
import { sessionFaults } from './harness/session-faults.js';

const LEASE_MS = 2000;
const SETTINGS = { LEASE_TTL_MS: String(LEASE_MS), LEASE_RENEW_MS: '600', SWEEP_INTERVAL_MS: '500' };
/** What a loaded machine may take for a sweep, one acquire and one claim. A row that stays locked is locked for ever. */
const SLACK_MS = 6000;
const LIMIT_MS = 25_000;
const WORK = 'say one\ntool append {"file":"effects","line":"x","repeatable":true}\nsay two';
const caller = new Caller();

interface Transaction {
  kind: string;
  /** Where the transaction is about to begin; the checks before it have been made. */
  before: string;
  where: Facts;
  refusedAt?: string;
}
const TRANSACTIONS: Transaction[] = [
  { kind: 'start', before: 'gate3.before', where: { turnId: 't1' } },
  {
    kind: 'append',
    before: 'append.checked',
    where: { turnId: 't1', types: ['tool.result'] },
    refusedAt: 'append.refused',
  },
  { kind: 'finish', before: 'finish.checked', where: { turnId: 't1' } },
];

test.each(TRANSACTIONS.map((each) => [each.kind, each] as const))(
  'a process stopped inside the transaction of a turn’s %s, its rows locked, keeps the next owner out for no longer than its lease',
  async (_kind, transaction) => {
    await onServers(async (stage) => {
      const [frozen] = await stage.start(['frozen'], SETTINGS);
      const before = await frozen.holdAt(transaction.before, transaction.where);
      await caller.say(frozen, 's1', WORK, 't1');
      await before.reached();
      const refused = await frozen.watchAt(transaction.refusedAt ?? 'append.refused');
      const [next] = await stage.start(['next'], SETTINGS);

      // Nothing else of this pod writes now, so the next transaction to commit is this one.
      const committing = await frozen.holdAt('database.committing');
      await before.release();
      await committing.reached();
      await frozen.freeze();
      const stoppedMs = await nowMs(stage.place);
      expect(await stage.place.query(SESSION_UNLESS_LOCKED)).toEqual([]);

      await until('the next owner claims', async () => claimOf(await caller.events(next, 's1'), next.name), LIMIT_MS);
      expect(await caller.ended(next, 's1', 't1', LIMIT_MS)).toMatchObject({ state: 'completed' });
      const claim = claimOf(await caller.events(next, 's1'), next.name)!;
      expect(Date.parse(claim.at) - stoppedMs).toBeLessThan(LEASE_MS + SLACK_MS);

      const released = committing.release();
      frozen.thaw();
      await released;
      await until('it has let go', async () => (await frozen.look()).actors.active === 0);
      const events = await caller.events(next, 's1');
      expect(sessionFaults(events)).toEqual([]);
      expect(events.filter((event) => event.type === 'turn.completed')).toHaveLength(1);
      expect(refused()).toHaveLength(transaction.refusedAt ? 1 : 0);
    })();
  },
  60_000,
);

const SESSION_UNLESS_LOCKED = `SELECT session_id FROM session WHERE session_id = 's1' FOR UPDATE SKIP LOCKED`;

/** The clock that gives events their time. */
async function nowMs(place: ServersPlace): Promise<number> {
  const [row] = await place.query<{ ms: string }>('SELECT UNIX_TIMESTAMP(NOW(3)) * 1000 AS ms');
  return Number(row!.ms);
}

function claimOf(events: readonly Event[], podId: string): Event | undefined {
  return events.find((event) => event.type === 'owner.changed' && event.data.podId === podId);
}
