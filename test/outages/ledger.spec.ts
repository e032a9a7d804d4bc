import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createConnection } from 'mysql2/promise';
import { sessionFaults } from '../crash/harness/session-faults.js';
import { Caller } from '../e2e/harness/caller.js';
import { until } from '../e2e/harness/until.js';
import { Watcher } from '../e2e/harness/watcher.js';
import { expectUnavailable, timed } from './harness/answers.js';
import { BreakableServers } from './harness/breakable-servers.js';
import { ProbeWatch, readiness } from './harness/probe-watch.js';

/** Every call has its answer within this, whatever hangs. */
const ANSWER_LIMIT_MS = 20_000;
const servers = new BreakableServers();
const caller = new Caller();

beforeAll(() => servers.start());
afterAll(() => servers.stop());

describe('the ledger', () => {
  test(
    'killed and started again: no 202 without a row, each message runs once, the turn under way waits and goes on, and nobody dies',
    servers.play(async (stage) => {
      const pods = await stage.start(['a', 'b']);
      const [a, b] = pods;
      const probes = new ProbeWatch(pods);
      await caller.say(a, 'busy', 'sleep 1500\nsay done', 'busy.1');
      await until('it runs', () => stage.calls().length > 0);
      const watcher = await Watcher.open(caller, b, 'busy', { after: 0 });
      await servers.ledger.kill();

      const ids = Array.from({ length: 12 }, (_, at) => `t${at}`);
      const post = (id: string) => timed(caller.post(a, id, { turnId: id, content: 'say well' }));
      for (const answer of await Promise.all(ids.map(post))) {
        expectUnavailable(answer, 'ledger_unavailable');
        expect(answer.tookMs).toBeLessThan(ANSWER_LIMIT_MS);
      }
      for (const pod of pods) expect(await readiness(pod, 503)).toEqual(['ledger']);

      await servers.ledger.restart();
      for (const pod of pods) await readiness(pod, 200);
      for (const id of ids) expect((await post(id)).status).toBe(202);
      for (const id of [...ids, ...ids]) expect(await caller.ended(b, id, id)).toMatchObject({ state: 'completed' });
      expect(await caller.ended(b, 'busy', 'busy.1')).toMatchObject({ state: 'completed', attempts: 1 });
      await watcher.sees('turn.completed');
      expect(watcher.events).toEqual(await caller.events(a, 'busy'));
      watcher.close();
      const turns = stage.calls().map(({ turn }) => turn);
      for (const id of ids) expect(turns.filter((turn) => turn === id)).toEqual([id]);
      expect(await probes.end()).toEqual([]);
    }),
  );

  test(
    'whose rows somebody holds: posts to these sessions are refused in time, however many, and other sessions go on',
    servers.play(async (stage) => {
      const [pod] = await stage.start(['pod']);
      const held = Array.from({ length: 12 }, (_, at) => `held${at}`);
      for (const session of [...held, 'free']) await caller.say(pod, session, 'say hi', `${session}.1`);
      for (const session of held) await caller.ended(pod, session, `${session}.1`);
      const holder = await createConnection({ uri: stage.place.settings['DATABASE_URL']! });
      try {
        await holder.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
        await holder.query('START TRANSACTION');
        for (const session of held) {
          await holder.query('SELECT 1 FROM session WHERE account = ? AND session_id = ? FOR UPDATE', [
            caller.account,
            session,
          ]);
        }
        const refused = Promise.all(
          held.map((session) => timed(caller.post(pod, session, { turnId: `${session}.2`, content: 'say more' }))),
        );
        const free = await timed(caller.post(pod, 'free', { turnId: 'free.2', content: 'say more' }));
        expect([free.status, free.tookMs < 5000]).toEqual([202, true]);
        expect(await caller.ended(pod, 'free', 'free.2')).toMatchObject({ state: 'completed' });
        for (const answer of await refused) {
          expectUnavailable(answer, 'ledger_unavailable');
          expect(answer.tookMs).toBeLessThan(ANSWER_LIMIT_MS);
        }
        await holder.query('ROLLBACK');
      } finally {
        holder.destroy();
      }
      for (const session of held) {
        expect((await caller.post(pod, session, { turnId: `${session}.2`, content: 'say more' })).status).toBe(202);
        expect(await caller.ended(pod, session, `${session}.2`)).toMatchObject({ state: 'completed' });
        expect(sessionFaults(await caller.events(pod, session))).toEqual([]);
      }
    }),
  );
});
