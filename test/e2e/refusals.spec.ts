import { expect, test } from '@jest/globals';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startMariaDb, startRedis } from '../../tools/services.mjs';
import { type Answer, Caller } from './harness/caller.js';
import type { Pod } from './harness/pod.js';
import { onServers, Stage } from './harness/stage.js';
import { until } from './harness/until.js';

const caller = new Caller();
/** A call may wait this long for a server that is away before it is refused. */
const PATIENCE_MS = 8000;

test(
  'a full session refuses with 429 and writes nothing; what it has accepted runs, and others are unharmed',
  onServers(async (stage) => {
    const [pod] = await stage.start(['pod'], { QUEUE_MAX_PENDING: '3' });
    await caller.say(pod, 's1', 'sleep 3000', 'running');
    await until('it runs', () => stage.calls().length > 0);
    for (const turnId of ['t1', 't2', 't3']) await caller.say(pod, 's1', `say ${turnId}`, turnId);
    const before = await stage.place.rows();

    const answers = await Promise.all(
      Array.from({ length: 5 }, (_, at) => caller.post(pod, 's1', { turnId: `more${at}`, content: 'say more' })),
    );
    for (const answer of answers) expectRefusal(answer, 429, 'queue_full');
    expect(await stage.place.rows()).toEqual(before);
    expect((await caller.post(pod, 's1', { turnId: 't2', content: 'say t2' })).status).toBe(202);
    expect((await caller.post(pod, 's2', { turnId: 'u1', content: 'say u1' })).status).toBe(202);

    expect(await caller.ended(pod, 's2', 'u1')).toMatchObject({ state: 'completed' });
    expect(await caller.ended(pod, 's1', 't3')).toMatchObject({ state: 'completed' });
    expect((await caller.post(pod, 's1', { turnId: 'more0', content: 'say more' })).status).toBe(202);
  }),
);

test(
  'mode reject refuses with 409 while a turn runs or waits and writes nothing; in an idle session it is accepted',
  onServers(async (stage) => {
    const [pod] = await stage.start(['pod']);
    await caller.say(pod, 's1', 'sleep 1000', 't1');
    const before = await stage.place.rows();
    const hasty = { turnId: 't2', content: 'say hasty', mode: 'reject' as const };
    const refused = await caller.post(pod, 's1', hasty);
    expect([refused.status, refused.body]).toEqual([409, expect.objectContaining({ code: 'session_busy' })]);
    expect({ ...(await stage.place.rows()), event: 0 }).toEqual({ ...before, event: 0 });

    await caller.ended(pod, 's1', 't1');
    expect((await caller.post(pod, 's1', hasty)).status).toBe(202);
    expect(await caller.ended(pod, 's1', 't2')).toMatchObject({ state: 'completed', mode: 'reject' });
  }),
);

test('while Redis is away posting is refused before anything is written, and reads, liveness and the rest go on', async () => {
  let redis = await startRedis();
  const stage = await Stage.onServers({ redisUrl: redis.url });
  try {
    await stage.watch(async () => {
      const [pod] = await stage.start(['pod']);
      await caller.say(pod, 's1', 'say before', 't1');
      await caller.ended(pod, 's1', 't1');
      const before = await stage.place.rows();
      const { port } = redis;
      await redis.stop();

      const message = { turnId: 't2', content: 'say after' };
      expectRefusal(await caller.post(pod, 's1', message), 503, 'coordination_unavailable');
      expect(await stage.place.rows()).toEqual(before);
      expect(await caller.events(pod, 's1')).toHaveLength(before.event);
      await expectProbes(pod, { ready: 503 });

      redis = await startRedis({ port });
      await expectProbes(pod, { ready: 200 });
      expect((await caller.post(pod, 's1', message)).status).toBe(202);
      expect(await caller.ended(pod, 's1', 't2')).toMatchObject({ state: 'completed', attempts: 1 });
    });
  } finally {
    await stage.end();
    await redis.stop();
  }
});

test('while the ledger is away calls are refused in time and the process lives; when it is back all goes on', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'butler-e2e-ledger-'));
  let database = await startMariaDb({ dir });
  const stage = await Stage.onServers({ databaseUrl: database.url });
  try {
    await stage.watch(async () => {
      const [pod] = await stage.start(['pod']);
      await caller.say(pod, 's1', 'sleep 1000\nsay done', 't1');
      await until('it runs', () => stage.calls().length > 0);
      const { port } = database;
      await database.stop();

      const message = { turnId: 't2', content: 'say after' };
      const sinceMs = performance.now();
      expectRefusal(await caller.post(pod, 's1', message), 503, 'ledger_unavailable');
      expect(performance.now() - sinceMs).toBeLessThan(PATIENCE_MS);
      await expectProbes(pod, { ready: 503 });

      database = await startMariaDb({ dir, port });
      await expectProbes(pod, { ready: 200 });
      expect((await caller.post(pod, 's1', message)).status).toBe(202);
      for (const turnId of ['t1', 't2']) {
        expect(await caller.ended(pod, 's1', turnId)).toMatchObject({ state: 'completed', generation: 1 });
      }
    });
  } finally {
    await stage.end();
    await database.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}, 45_000);

function expectRefusal(answer: Answer<unknown>, status: number, code: string): void {
  expect([answer.status, answer.body]).toEqual([status, expect.objectContaining({ code })]);
  expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json\b/);
  expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
}

/** The process is alive whatever is away; whether it is ready follows what is there. */
async function expectProbes(pod: Pod, { ready }: { ready: 200 | 503 }): Promise<void> {
  expect((await fetch(`${pod.url}/health/live`)).status).toBe(200);
  await until(`readiness is ${ready}`, async () => (await fetch(`${pod.url}/health/ready`)).status === ready);
}
