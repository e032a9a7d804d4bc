import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Facts, Order, PodState, Report } from './pod-orders.js';
import { until } from './until.js';

/** The checkout: the compiled pod of this very checkout is what runs. */
export const root = resolve(import.meta.dirname, '../../..');

export interface PodExit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A pod that is held at a step point until `release`. */
export interface Hold {
  /** Resolves with the point's facts as soon as somebody stands there. */
  reached(limitMs?: number): Promise<Facts>;
  release(): Promise<void>;
}

type Unnumbered<O> = O extends { id: number } ? Omit<O, 'id'> : never;

/** One pod process. */
export class Pod {
  readonly exited: Promise<PodExit>;
  private output = '';
  private readonly reports: Report[] = [];
  private address: string | null = null;
  private orders = 0;

  private constructor(
    readonly name: string,
    private readonly child: ChildProcess,
  ) {
    this.exited = once(child, 'exit').then(([code, signal]) => ({ code, signal }) as PodExit);
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    }
    child.on('message', (report: Report) => this.reports.push(report));
    child.on('error', (error) => (this.output += `${error.message}\n`));
  }

  /** Starts a pod process that can be steered. Its environment is `env` and nothing else; it does not listen yet. */
  static launch(name: string, env: Record<string, string>): Pod {
    return Pod.run(name, 'test/e2e/pod-process.js', env);
  }

  /** Starts the product's own program instead. */
  static launchServer(name: string, env: Record<string, string>): Pod {
    return Pod.run(name, 'apps/server/src/main.js', env);
  }

  private static run(name: string, program: string, env: Record<string, string>): Pod {
    const child = fork(join(root, 'dist', program), [], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      execArgv: ['--enable-source-maps'],
      env: { PATH: process.env.PATH, ...env },
    });
    return new Pod(name, child);
  }

  get url(): string {
    if (this.address === null) throw new Error(`pod ${this.name} does not listen yet`);
    return this.address;
  }

  get alive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Everything it wrote. */
  get log(): string {
    return this.output;
  }

  /** The lines that it logged as errors. */
  get errors(): string[] {
    return this.output.split('\n').filter((line) => /"level":(50|60|"error"|"fatal")/.test(line));
  }

  async listening(limitMs = 60_000): Promise<this> {
    const report = await until(
      `pod ${this.name} listens`,
      () => {
        if (!this.alive) return 'ended';
        return this.reports.find((each) => each.kind === 'listening');
      },
      limitMs,
    );
    if (report === 'ended') throw new Error(`pod ${this.name} ended at its start`);
    this.address = report.url;
    return this;
  }

  /** Holds the pod at the next time that it reaches this point with these facts, and at every time after that. */
  async holdAt(point: string, where?: Facts): Promise<Hold> {
    const id = await this.order({ act: 'hold', point, where });
    return {
      reached: (limitMs) => until(`pod ${this.name} reaches ${point}`, () => this.passages(id)[0], limitMs),
      release: async () => void (await this.order({ act: 'release', hold: id })),
    };
  }

  /** Looks on at this point from now on: the facts of each time that it has been passed, so far. */
  async watchAt(point: string, where?: Facts): Promise<() => Facts[]> {
    const id = await this.order({ act: 'watch', point, where });
    return () => this.passages(id);
  }

  /** What its process holds in memory now. */
  async look(): Promise<PodState> {
    const id = await this.order({ act: 'look' });
    for (const report of this.reports) if (report.kind === 'state' && report.id === id) return report.state;
    throw new Error(`pod ${this.name} did not tell its state`);
  }

  /** Changes ACTOR_IDLE_MS while it runs. */
  async setIdle(actorIdleMs: number): Promise<void> {
    await this.order({ act: 'set', actorIdleMs });
  }

  /** SIGSTOP. Resolves when the process stands still; nothing that it is told from then on is heard until `thaw`. */
  async freeze(): Promise<void> {
    this.child.kill('SIGSTOP');
    await until(`pod ${this.name} stands still`, () => stateOf(this.child.pid!) === 'T');
  }

  /** SIGCONT. */
  thaw(): void {
    this.child.kill('SIGCONT');
  }

  /** Ends the process as kill -9 does at the n-th time that it reaches this point with these facts. */
  async dieAt(point: string, where?: Facts, nth = 1): Promise<void> {
    await this.order({ act: 'die', point, where, nth });
  }

  /** kill -9. Resolves when the process is gone. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exited;
  }

  /** SIGTERM. Resolves when the process is gone, with how it ended and how long that took. */
  async terminate(): Promise<PodExit & { tookMs: number }> {
    const sinceMs = performance.now();
    this.child.kill('SIGTERM');
    return { ...(await this.exited), tookMs: performance.now() - sinceMs };
  }

  private passages(id: number): Facts[] {
    return this.reports.flatMap((report) => (report.kind === 'reached' && report.id === id ? [report.facts] : []));
  }

  private async order(order: Unnumbered<Order>): Promise<number> {
    const id = ++this.orders;
    this.child.send({ ...order, id });
    await until(`pod ${this.name} obeys`, () => this.reports.some((each) => each.kind === 'obeyed' && each.id === id));
    return id;
  }
}

/** The state letter that the system gives the process. */
function stateOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3);
}
