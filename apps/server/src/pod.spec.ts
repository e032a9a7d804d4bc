import { Agent, request } from 'node:http';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { ActorSupervisor } from '#actor';
import {
  COORDINATION,
  CoordinationHealth,
  Database,
  loadSettings,
  type Settings,
  SystemClock,
  UnavailableError,
} from '#platform';
import { EventLedger } from '#event-ledger';
import { SessionStreams } from '#event-stream';
import { FrontDoor } from './http/front-door.js';
import { type Pod, startPod } from './pod.js';

const clock = new SystemClock();
const pods: Pod[] = [];
afterEach(async () => {
  jest.restoreAllMocks();
  await Promise.all(pods.splice(0).map((pod) => pod.stop()));
});

async function start(env: Record<string, string> = {}, changed: Partial<Settings> = {}): Promise<Pod> {
  const fixed = { PORT: '0', DATABASE_URL: 'sqlite::memory:', AGENT: 'script', LOG_LEVEL: 'silent', POD_ID: 'pod' };
  const pod = await startPod({ settings: Object.assign(loadSettings({ ...fixed, ...env }), changed), clock });
  pods.push(pod);
  return pod;
}

const post = (pod: Pod, session: string, content: string): Promise<Response> =>
  fetch(`${pod.url}/v1/sessions/${session}/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ content }),
  });

async function until(what: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await what())) await clock.sleep(5);
}

/** One GET over a connection that is kept. */
function get(agent: Agent, url: string): Promise<{ status: number; connection: string | undefined }> {
  return new Promise((resolve, reject) => {
    request(url, { agent }, (response) => {
      response
        .resume()
        .on('end', () => resolve({ status: response.statusCode ?? 0, connection: response.headers.connection }));
    })
      .on('error', reject)
      .end();
  });
}

it.each([
  ['no.such.host.invalid', /^HOST=no\.such\.host\.invalid does not resolve: set HOST to/],
  ['192.0.2.1', /^HOST=192\.0\.2\.1 is no address of this machine: set HOST to/],
])('a pod that cannot listen at %s names the setting, and leaves nothing open', async (host, line) => {
  await expect(start({ HOST: host })).rejects.toThrow(line);
});

describe('a pod that is asked to end', () => {
  it('fails readiness at once and serves on for the linger; then its streams end with their hint and it listens no more', async () => {
    const pod = await start({ SHUTDOWN_LINGER_MS: '600', SHUTDOWN_GRACE_MS: '5000' });
    await post(pod, 's1', 'say hello');
    const stream = fetch(`${pod.url}/v1/sessions/s1/stream?after=0`).then((response) => response.text());
    const agent = new Agent({ keepAlive: true });
    expect(await get(agent, `${pod.url}/health/ready`)).toEqual({ status: 200, connection: 'keep-alive' });
    await until(() => pod.app.get(SessionStreams).counts().watches === 1);

    const stopped = pod.stop();
    await until(async () => (await fetch(`${pod.url}/health/ready`)).status === 503);
    const ready = (await (await fetch(`${pod.url}/health/ready`)).json()) as object;
    expect(ready).toMatchObject({ status: 'error', error: { serving: { status: 'down' } } });
    expect((await fetch(`${pod.url}/health/live`)).status).toBe(200);
    expect((await post(pod, 's1', 'say late')).status).toBe(202);
    expect(await get(agent, `${pod.url}/v1/sessions/s1`)).toEqual({ status: 200, connection: 'close' });

    await stopped;
    expect(await stream).toMatch(/event: stream\.end\ndata: \{"reason":"draining","after":\d+\}\n\n$/);
    await expect(fetch(`${pod.url}/health/live`)).rejects.toThrow();
    agent.destroy();
  });

  it('hands its turns over, then ends streams and connections, then closes what it stands on, each after the other', async () => {
    const pod = await start({ SHUTDOWN_GRACE_MS: '5000' });
    const { app } = pod;
    const steps: string[] = [];
    const supervisor = app.get(ActorSupervisor);
    const leaveAll = supervisor.leaveAll.bind(supervisor);
    jest.spyOn(supervisor, 'leaveAll').mockImplementation(async (graceMs) => {
      steps.push('turns are handed over');
      await leaveAll(graceMs);
      steps.push(`no actor is left: ${supervisor.counts().active + supervisor.counts().idle}`);
    });
    const note = (target: object, method: string, step: string): void => {
      const original = (target as Record<string, (...args: unknown[]) => unknown>)[method]!.bind(target);
      Object.assign(target, {
        [method]: (...args: unknown[]) => {
          steps.push(step);
          return original(...args);
        },
      });
    };
    note(app.get(FrontDoor), 'close', 'new calls are refused');
    note(app.get(SessionStreams), 'drain', 'streams end');
    note(app.get<object>(COORDINATION), 'close', 'coordination is closed');
    note(app.get(Database), 'close', 'the ledger is closed');
    await post(pod, 's1', 'sleep 60000');
    await until(() => supervisor.counts().active === 1);
    await pod.stop();
    expect(steps).toEqual([
      'turns are handed over',
      'no actor is left: 0',
      ...['new calls are refused', 'streams end', 'coordination is closed', 'the ledger is closed'],
    ]);
  });

  it('is gone within its grace, whatever hangs', async () => {
    const pod = await start({ SHUTDOWN_GRACE_MS: '3000' });
    const never = new Promise<never>(() => {});
    const { app } = pod;
    jest.spyOn(app.get(ActorSupervisor), 'leaveAll').mockReturnValue(never);
    jest.spyOn(app.get(ActorSupervisor), 'stop').mockReturnValue(never);
    Object.assign(app.get<object>(COORDINATION), { close: () => never });
    // A connection that says nothing, and a call that is never answered.
    jest.spyOn(app.get(EventLedger), 'findSession').mockReturnValue(never);
    const hanging = fetch(`${pod.url}/v1/sessions/s1`).catch(() => 'cut');
    await until(() => jest.mocked(app.get(EventLedger).findSession).mock.calls.length === 1);
    const sinceMs = clock.monotonicMs();
    await pod.stop();
    expect(clock.monotonicMs() - sinceMs).toBeLessThan(3000);
    expect(await hanging).toBe('cut');
    jest.restoreAllMocks();
    await app.get(ActorSupervisor).stop();
  });

  it('can be asked twice', async () => {
    const pod = await start();
    await Promise.all([pod.stop(), pod.stop()]);
  });
});

describe('a pod whose servers are away', () => {
  it.each([
    ['database', 'ledger_unavailable'],
    ['redis', 'coordination_unavailable'],
  ] as const)('says so when the %s does not answer', async (what, code) => {
    const pod = await start();
    jest
      .spyOn(pod.app.get(EventLedger), 'findSession')
      .mockRejectedValue(new UnavailableError(what, 'secret host is away'));
    for (const path of ['', '/events', '/stream', '/turns']) {
      const response = await fetch(`${pod.url}/v1/sessions/s1${path}`);
      expect([path, response.status, response.headers.get('retry-after')]).toEqual([path, 503, '1']);
      const problem = await response.text();
      expect(JSON.parse(problem)).toMatchObject({ code, status: 503 });
      expect(problem).not.toContain('secret');
    }
  });

  it('says nothing of an unknown fault but that there was one', async () => {
    const pod = await start();
    jest.spyOn(pod.app.get(EventLedger), 'findSession').mockRejectedValue(new Error('SELECT secret FROM session'));
    const response = await fetch(`${pod.url}/v1/sessions/s1`);
    const problem = await response.text();
    expect([response.status, response.headers.get('content-type')]).toEqual([
      500,
      'application/problem+json; charset=utf-8',
    ]);
    expect(JSON.parse(problem)).toMatchObject({ code: 'internal_error', title: 'Internal Server Error' });
    expect(problem).not.toMatch(/secret|SELECT|at /);
  });

  it('lives on, and is not ready', async () => {
    const pod = await start();
    jest.spyOn(pod.app.get(Database), 'ping').mockResolvedValue(false);
    jest.spyOn(pod.app.get(CoordinationHealth), 'ping').mockResolvedValue(false);
    expect((await fetch(`${pod.url}/health/live`)).status).toBe(200);
    const response = await fetch(`${pod.url}/health/ready`);
    const down = { ledger: { status: 'down' }, coordination: { status: 'down' } };
    expect([response.status, await response.json()]).toEqual([
      503,
      {
        status: 'error',
        info: { serving: { status: 'up' } },
        error: down,
        details: { serving: { status: 'up' }, ...down },
      },
    ]);
  });
});

describe('a pod with one role', () => {
  it('api: accepts messages and runs none', async () => {
    // As one of several would: by itself it is refused.
    const pod = await start({}, { roles: ['api'] });
    const accepted = (await (await post(pod, 's1', 'say hello')).json()) as { turnId: string };
    const turn = await fetch(`${pod.url}/v1/sessions/s1/turns/${accepted.turnId}`);
    expect(await turn.json()).toMatchObject({ state: 'queued' });
  });

  it('actors: answers probes and nothing else', async () => {
    const pod = await start({ ROLES: 'actors' });
    expect((await fetch(`${pod.url}/health/ready`)).status).toBe(200);
    expect((await fetch(`${pod.url}/v1/sessions`)).status).toBe(404);
  });
});

describe('streams over HTTP', () => {
  const open = (pod: Pod, path: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> =>
    fetch(`${pod.url}/v1/sessions/s1/stream${path}`, { headers, signal });

  it('begin behind Last-Event-ID, which beats ?after=, or now; a bad cursor or one past the end is refused', async () => {
    const pod = await start();
    await post(pod, 's1', 'say hello');
    await until(async () => (await (await fetch(`${pod.url}/v1/sessions/s1`)).text()).includes('"state":"idle"'));
    const { lastSeq } = (await (await fetch(`${pod.url}/v1/sessions/s1`)).json()) as { lastSeq: number };
    const firstIds = async (path: string, headers: Record<string, string> = {}): Promise<string> => {
      const leaving = new AbortController();
      const response = await open(pod, path, headers, leaving.signal);
      if (response.status !== 200) return `${response.status} ${((await response.json()) as { code: string }).code}`;
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      if (path === '') await post(pod, 's1', 'say more');
      while (!/^id: \d+$/m.test(text)) text += (await reader.read()).value;
      leaving.abort();
      return /^id: (\d+)$/m.exec(text)![1]!;
    };
    expect(await firstIds('?after=0')).toBe('1');
    expect(await firstIds('?after=2')).toBe('3');
    expect(await firstIds('?after=0', { 'last-event-id': '2' })).toBe('3');
    expect(await firstIds('?after=99999', { 'last-event-id': '2' })).toBe('3');
    expect(await firstIds('')).toBe(String(lastSeq + 1));
    for (const bad of ['?after=99999', '?after=x', '?after=1&after=2', '?after=-1', '?from=1']) {
      expect([bad, await firstIds(bad)]).toEqual([bad, '400 validation_failed']);
    }
    expect(await firstIds('?after=0', { 'last-event-id': 'x' })).toBe('400 validation_failed');
    expect(await firstIds('?after=0', { 'last-event-id': '99999' })).toBe('400 validation_failed');
  });

  it('that are destroyed by the hundred while the ledger is slow leave nothing behind', async () => {
    const pod = await start();
    await post(pod, 's1', 'say hello');
    const ledger = pod.app.get(EventLedger);
    const findSession = ledger.findSession.bind(ledger);
    jest.spyOn(ledger, 'findSession').mockImplementation(async (session) => {
      await clock.sleep(100);
      return findSession(session);
    });
    const leaving = new AbortController();
    const asked = Array.from({ length: 300 }, (_, at) =>
      open(pod, '?after=0', {}, at % 3 === 0 ? AbortSignal.any([leaving.signal]) : leaving.signal).catch(() => 'gone'),
    );
    await until(() => jest.mocked(ledger.findSession).mock.calls.length > 0);
    leaving.abort();
    await Promise.all(asked);
    const streams = pod.app.get(SessionStreams);
    await clock.sleep(300);
    await until(() => streams.counts().subscriptions === 0);
    expect(streams.counts()).toEqual({ sessions: 0, watches: 0, subscriptions: 0 });
  });
});
