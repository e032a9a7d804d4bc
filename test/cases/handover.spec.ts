import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { leasesOf } from '../crash/harness/leases.js';
import { sessionFaults } from '../crash/harness/session-faults.js';
import { Caller } from '../e2e/harness/caller.js';
import { type Pod, root } from '../e2e/harness/pod.js';
import { onServers, type Stage } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';
import { Watcher } from '../e2e/harness/watcher.js';

/** No sweep: what is handed over is taken because that was said. */
const NO_SWEEP = { SWEEP_INTERVAL_MS: '60000' };
const SHORT_LEASE = { LEASE_TTL_MS: '1500', LEASE_RENEW_MS: '500' };
const caller = new Caller();

const begun = (stage: Stage, turn: string, key: string): Promise<unknown> =>
  until(`${turn} is at ${key}`, () => stage.calls().some((call) => call.turn === turn && call.key === key));
const isReady = async (pod: Pod): Promise<boolean> => (await fetch(`${pod.url}/health/ready`)).status === 200;
const drains = (pod: Pod): Promise<unknown> => until(`${pod.name} drains`, async () => !(await isReady(pod)));

describe('a turn whose pod is asked to end', () => {
  test(
    'inside a model call that outlasts the grace goes back to the head of its line without a lease, and is never stopped',
    onServers(async (stage) => {
      const [leaving, other] = await stage.start(['leaving', 'other'], { ...NO_SWEEP, SHUTDOWN_GRACE_MS: '3000' });
      await caller.say(leaving, 's1', 'say one\nsleep 3000\nsay two', 't1');
      await begun(stage, 't1', 'model:2');
      await caller.say(leaving, 's1', 'say next', 't2');
      const acquiring = await other.holdAt('actor.acquiring');
      expect(await leaving.terminate()).toMatchObject({ code: 0, signal: null });

      await acquiring.reached();
      expect(await caller.ownership(other, 's1')).toMatchObject({
        ...{ owner: null, ledgerEpoch: 1, runningTurn: { turnId: 't1', state: 'running' } },
        ...{ processing: { turnId: 't1', generation: 1 }, pending: [{ turnId: 't2', generation: 1 }] },
      });
      await acquiring.release();
      expect(await caller.ended(other, 's1', 't1')).toMatchObject({ state: 'completed', generation: 1, stop: null });
      await caller.ended(other, 's1', 't2');
      const events = await caller.events(other, 's1');
      expect(sessionFaults(events)).toEqual([]);
      expect(events.map(({ type }) => type).filter((type) => type.includes('stop'))).toEqual([]);
      const said = events.flatMap((event) => (event.type === 'model.message' ? [event.data.step] : []));
      expect(said).toEqual(['model:1', 'model:2', 'model:3', 'model:1']);
    }),
  );

  test(
    'inside a tool that heeds no signal keeps its lease, renewed, until the tool returns, and the tool is not called again',
    onServers(async (stage) => {
      const settings = { ...NO_SWEEP, ...SHORT_LEASE, SHUTDOWN_GRACE_MS: '12000' };
      const [leaving, other] = await stage.start(['leaving', 'other'], settings);
      await caller.say(leaving, 's1', 'tool sleep {"ms":4000,"deaf":true}\nsay done', 't1');
      await begun(stage, 't1', 'tool:model-1-1');
      const gone = leaving.terminate();
      await drains(leaving);

      const held = new Set<string>();
      await until('the tool returns', async () => {
        held.add((await leasesOf(stage.place, 'leaving')).join());
        const tool = stage.calls().find((call) => call.kind === 'tool')!;
        return tool.endNs !== null;
      });
      // The last look may come when it has been handed over.
      expect([...held][0]).toBe('s1');
      expect(held.size).toBeLessThanOrEqual(2);
      expect(await caller.ended(other, 's1', 't1')).toMatchObject({ state: 'completed', attempts: 2 });
      expect(await gone).toMatchObject({ code: 0, signal: null });
      expect(stage.calls().map((call) => [call.pod, call.key])).toEqual([
        ['leaving', 'model:1'],
        ['leaving', 'tool:model-1-1'],
        ['other', 'model:2'],
      ]);
      const life = (await caller.events(other, 's1')).map(({ type }) => type);
      expect(life.indexOf('turn.yielded')).toBe(life.indexOf('tool.result') + 1);
    }),
  );
});

describe('a pod that is asked to end', () => {
  const CALLS = 300;
  const AT_ONCE = 8;

  test(
    'is not ready at once, and serves every call that a proxy still sends, over new connections and kept ones',
    onServers(async (stage) => {
      const settings = { SHUTDOWN_LINGER_MS: '4000', SHUTDOWN_GRACE_MS: '12000' };
      const [leaving, other] = await stage.start(['leaving', 'other'], settings);
      await caller.say(other, 's0', 'say hello', 't0');
      const gone = leaving.terminate();
      await drains(leaving);

      const statuses: number[] = [];
      const posted: string[] = [];
      const numbers = Array.from({ length: CALLS }, (_, at) => at).values();
      await Promise.all(
        Array.from({ length: AT_ONCE }, async () => {
          for (const at of numbers) statuses.push(await send(at));
        }),
      );
      async function send(at: number): Promise<number> {
        if (at % 10 === 0) {
          posted.push(`t${at + 1}`);
          return (await caller.post(leaving, `s${at}`, { turnId: `t${at + 1}`, content: 'say late' })).status;
        }
        const headers = { ...caller.headers, ...(at % 2 === 0 && { connection: 'close' }) };
        const answer = await fetch(`${leaving.url}/v1/sessions/s0/events`, { headers });
        await answer.arrayBuffer();
        return answer.status;
      }
      expect(leaving.alive).toBe(true);
      const answered = (status: number): number => statuses.filter((each) => each === status).length;
      expect([answered(200), answered(202)]).toEqual([CALLS - posted.length, posted.length]);
      expect(await gone).toMatchObject({ code: 0 });
      for (const turnId of posted) {
        expect(await caller.ended(other, `s${Number(turnId.slice(1)) - 1}`, turnId)).toMatchObject({
          state: 'completed',
        });
      }
    }),
  );

  test(
    'ends the streams and sockets that are open, and its watchers go on at another pod without loss',
    onServers(async (stage) => {
      const [leaving, other] = await stage.start(['leaving', 'other'], NO_SWEEP);
      await caller.say(other, 's1', 'say one\nsleep 400\nsay two', 't1');
      const watchers = await Promise.all(
        Array.from({ length: 50 }, () => Watcher.open(caller, leaving, 's1', { after: 0 })),
      );
      const { port } = new URL(leaving.url);
      const sockets = await Promise.all(Array.from({ length: 20 }, () => silent(Number(port))));
      const { code, signal } = await leaving.terminate();
      expect([code, signal]).toEqual([0, null]);
      expect(leaving.log).toContain('"msg":"stopped"');
      expect(leaving.log).not.toContain('was not done in');
      await until(
        'all of them are closed',
        () => watchers.every(({ closed }) => closed) && sockets.every(({ closed }) => closed),
      );

      await caller.ended(other, 's1', 't1');
      const again = await Promise.all(
        watchers.map(({ hint }) => Watcher.open(caller, other, 's1', { after: hint!.after })),
      );
      await Promise.all(again.map((watcher) => watcher.sees('turn.completed')));
      const all = (await caller.events(other, 's1')).map(({ seq }) => seq);
      for (const [at, { seqs }] of watchers.entries()) expect([...seqs, ...again[at]!.seqs]).toEqual(all);
      for (const watcher of again) watcher.close();
    }),
  );

  /** A connection that says nothing. */
  function silent(port: number): Promise<{ closed: boolean }> {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    return new Promise((resolve) => socket.on('connect', () => resolve(socket)));
  }

  test(
    'as its image starts it hears the signal itself: it hands its turn over, gives its leases back and ends with code 0',
    onServers(async (stage) => {
      const [other] = await stage.start(['other'], NO_SWEEP);
      const settings = { POD_ID: 'leaving', PORT: '0', AUTH_MODE: 'dev', AGENT: 'script', SHUTDOWN_LINGER_MS: '200' };
      const { child, output } = startImage({ ...stage.place.settings, ...NO_SWEEP, ...settings });
      try {
        const url = await until('it says where it is', () => /http:\/\/[\d.]+:\d+/.exec(output())?.[0]);
        await caller.say({ url }, 's1', 'sleep 1500\nsay done', 't1');
        await until('it runs', async () => (await caller.turn(other, 's1', 't1')).state === 'running');
        expect(await leasesOf(stage.place, 'leaving')).toEqual(['s1']);
        child.kill('SIGTERM');
        expect(await once(child, 'exit')).toEqual([0, null]);
        expect(await leasesOf(stage.place, 'leaving')).toEqual([]);
        expect(output()).toMatch(/draining: readiness fails[\s\S]*"msg":"stopped"/);
        const turn = await caller.ended(other, 's1', 't1');
        expect(turn).toMatchObject({ state: 'completed', attempts: 2, stop: null });
      } finally {
        child.kill('SIGKILL');
      }
    }),
  );

  /** What the image runs: words, so that no shell stands between the signal and the pod. */
  function startImage(env: Record<string, string>): { child: ChildProcess; output(): string } {
    const command = /^CMD (\[.*\])$/m.exec(readFileSync(join(root, 'Dockerfile'), 'utf8'))?.[1];
    const [program, ...args] = JSON.parse(command ?? '[]') as string[];
    expect(program).toBe('node');
    const child = spawn(process.execPath, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (some) => (text += some));
    return { child, output: () => text };
  }
});
