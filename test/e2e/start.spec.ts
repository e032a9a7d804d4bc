import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { Caller } from './harness/caller.js';
import { root } from './harness/pod.js';
import { until } from './harness/until.js';

const START_LIMIT_MS = 30_000;
/** What a fresh checkout does not have. The dependencies are linked: their install is npm's promise, not ours. */
const NOT_COPIED = ['node_modules', 'dist', '.git', '.butler', 'coverage'];

let checkout: string;
const starts: Start[] = [];

/** One `npm start` in the copy, in a process group of its own. */
class Start {
  output = '';
  readonly exited: Promise<number | null>;
  private readonly child: ChildProcess;

  constructor(env: Record<string, string>) {
    this.child = spawn('npm', ['start'], {
      cwd: checkout,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env.PATH, HOME: process.env.HOME, LOG_LEVEL: 'warn', ...env },
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    }
    this.exited = once(this.child, 'exit').then(([code]) => code as number | null);
    starts.push(this);
  }

  /** What it said to whoever started it, without what npm says around it and without its log. */
  get lines(): string[] {
    return this.output.split('\n').filter((line) => line.trim() !== '' && !/^(>|npm |\{)/.test(line));
  }

  async answers(url: string): Promise<void> {
    await until(
      `npm start at ${url} is ready:\n${this.output}`,
      async () => (await fetch(`${url}/health/ready`)).status === 200,
      START_LIMIT_MS,
    );
  }

  terminate(): Promise<number | null> {
    this.child.kill('SIGTERM');
    return this.exited;
  }

  /** Kills what npm runs, the process that has started the pod, so that it can pass nothing on. */
  async killStarter(): Promise<void> {
    const { pid } = this.child;
    const [starter] = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ').map(Number);
    process.kill(starter!, 'SIGKILL');
  }

  end(): void {
    try {
      process.kill(-this.child.pid!, 'SIGKILL');
    } catch {
      // The whole group has ended.
    }
  }
}

beforeAll(() => {
  checkout = mkdtempSync(join(tmpdir(), 'butler-start-'));
  cpSync(root, checkout, { recursive: true, filter: (path) => path === root || !NOT_COPIED.includes(basename(path)) });
  // Each by itself: an install that goes wrong in the copy takes away links, nothing else.
  mkdirSync(join(checkout, 'node_modules'));
  for (const name of readdirSync(join(root, 'node_modules'))) {
    symlinkSync(join(root, 'node_modules', name), join(checkout, 'node_modules', name));
  }
});

afterAll(async () => {
  for (const start of starts) start.end();
  await Promise.all(starts.map((start) => start.exited));
  rmSync(checkout, { recursive: true, force: true });
});

test('npm start in a fresh checkout comes up by itself, says where it is and what to try, and does it', async () => {
  const port = await freePort();
  const start = new Start({ PORT: String(port) });
  await start.answers(`http://127.0.0.1:${port}`);
  await until('it says where it is', () => new RegExp(`http://(localhost|127\\.0\\.0\\.1):${port}`).test(start.output));
  expect(start.output).toMatch(/curl .*\/v1\/sessions\/.*\/messages/s);

  const caller = new Caller();
  const pod = { url: `http://127.0.0.1:${port}` };
  await caller.say(pod, 's1', 'How much memory is free?', 't1');
  expect(await caller.ended(pod, 's1', 't1')).toMatchObject({ state: 'completed' });
  const replies = (await caller.events(pod, 's1')).filter((event) => event.type === 'model.message');
  expect(replies.at(-1)!.data).toMatchObject({ text: expect.stringMatching(/\d/) });

  expect(await start.terminate()).toBe(0);
  await expect(fetch(pod.url)).rejects.toThrow();
}, 60_000);

test('a pod whose starter is killed ends, too, and in order', async () => {
  const port = await freePort();
  const start = new Start({ PORT: String(port), LOG_LEVEL: 'info', DATABASE_URL: `sqlite:${checkout}/killed.sqlite` });
  await start.answers(`http://127.0.0.1:${port}`);
  await start.killStarter();
  await until('the pod has closed its ledger', () => start.output.includes('"msg":"stopped"'));
  await until('nobody listens', () =>
    fetch(`http://127.0.0.1:${port}/health/live`).then(
      () => false,
      () => true,
    ),
  );
}, 60_000);

test('two starts at once from one checkout come up beside each other, on ports and ledgers of their own', async () => {
  rmSync(join(checkout, 'dist'), { recursive: true, force: true });
  const ports = [await freePort(), await freePort()];
  const both = ports.map(
    (port) => new Start({ PORT: String(port), DATABASE_URL: `sqlite:${checkout}/${port}.sqlite` }),
  );
  await Promise.all(both.map((start, at) => start.answers(`http://127.0.0.1:${ports[at]}`)));
  expect(await Promise.all(both.map((start) => start.terminate()))).toEqual([0, 0]);
}, 60_000);

test('unknown and impossible settings end the start with one clear line each and exit code 1', async () => {
  const start = new Start({
    PORT: 'many',
    AGENT: 'genius',
    POD_ID: 'a:b',
    LEASE_TTL_MS: '1000',
    LEASE_RENEW_MS: '600',
    DATABASE_URL: 'postgres://db.example/butler',
    ROLES: 'api,cook',
  });
  expect(await start.exited).toBe(1);
  const faults = [
    'PORT=many',
    'AGENT=genius',
    'POD_ID=a:b',
    'LEASE_RENEW_MS=600',
    'DATABASE_URL=postgres',
    'ROLES=api,cook',
  ];
  for (const fault of faults) expect(start.lines.filter((line) => line.includes(fault))).toHaveLength(1);
  expect(start.output).not.toMatch(/^\s+at /m);
}, 60_000);

test('a port that is taken ends the start with one clear line and exit code 1', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const start = new Start({ PORT: String(port), DATABASE_URL: `sqlite:${checkout}/taken.sqlite` });
  expect(await start.exited).toBe(1);
  server.close();
  expect(start.lines.filter((line) => line.includes(String(port)))).toHaveLength(1);
  expect(start.output).not.toMatch(/"level":[56]0/);
  expect(start.output).not.toMatch(/^\s+at /m);
}, 60_000);

/** Below the range that the system takes for outgoing connections, so nobody takes it by chance. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    const probe = createServer();
    const free = await new Promise<boolean>((done) => {
      probe.once('error', () => done(false));
      probe.listen(port, '127.0.0.1', () => done(true));
    });
    await new Promise<void>((closed) => void probe.close(() => closed()));
    if (free) return port;
  }
}
