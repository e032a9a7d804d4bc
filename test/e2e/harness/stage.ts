import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readCalls, readLines, type ScriptCall } from './script-calls.js';
import { type GivenServers, openFile, openServers, type Place, type ServersPlace } from './places.js';
import { Pod } from './pod.js';

const LOG_TAIL_CHARS = 20_000;

/** Short enough for a test, long enough for a loaded machine of two cores. */
const SETTINGS = {
  PORT: '0',
  HOST: '127.0.0.1',
  AUTH_MODE: 'dev',
  AGENT: 'script',
  LOG_LEVEL: 'info',
  SWEEP_INTERVAL_MS: '500',
  REFILL_WAIT_MS: '200',
  SHUTDOWN_GRACE_MS: '8000',
  SHUTDOWN_LINGER_MS: '200',
};

/** What one test plays on: pods that share a ledger and a folder for scripts, and all that has to go afterwards. */
export class Stage<P extends Place = Place> {
  readonly pods: Pod[] = [];

  private constructor(
    readonly place: P,
    private readonly dir: string,
  ) {}

  static async onServers(given?: GivenServers): Promise<Stage<ServersPlace>> {
    return new Stage(await openServers(given), makeDir());
  }

  static onFile(): Stage {
    const dir = makeDir();
    return new Stage(openFile(dir), dir);
  }

  /** Starts pods at once; resolves when all of them listen. */
  async start<N extends string[]>(
    names: [...N],
    settings: Record<string, string> = {},
  ): Promise<{ [I in keyof N]: Pod }> {
    const started = names.map((name) => {
      const env = { ...SETTINGS, ...this.place.settings, POD_ID: name, SCRIPT_DIR: this.scriptDir, ...settings };
      return Pod.launch(name, env);
    });
    this.pods.push(...started);
    await Promise.all(started.map((pod) => pod.listening()));
    return started as { [I in keyof N]: Pod };
  }

  /** What the script agent's steps left behind, in the order of time. */
  calls(): ScriptCall[] {
    return readCalls(this.scriptDir);
  }

  /** The lines of a file that `tool append` wrote. */
  lines(file: string): string[] {
    return readLines(join(this.scriptDir, file));
  }

  /** Does some work; when that fails, the logs of all pods are shown. */
  async watch(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      for (const { name, log } of this.pods) process.stderr.write(`\n── pod ${name}\n${log.slice(-LOG_TAIL_CHARS)}`);
      throw error;
    }
  }

  /** Ends and removes everything. To be called however the test came out. */
  async end(): Promise<void> {
    await Promise.all(this.pods.filter((pod) => pod.alive).map((pod) => pod.kill()));
    rmSync(this.dir, { recursive: true, force: true });
    await this.place.close();
  }

  private get scriptDir(): string {
    return join(this.dir, 'script');
  }
}

/** A test with pods on the real servers. */
export function onServers(work: (stage: Stage<ServersPlace>) => Promise<void>): () => Promise<void> {
  return async () => play(await Stage.onServers(), work);
}

/** A test with one embedded pod at a time, on a SQLite file. */
export function onFile(work: (stage: Stage) => Promise<void>): () => Promise<void> {
  return () => play(Stage.onFile(), work);
}

async function play<P extends Place>(stage: Stage<P>, work: (stage: Stage<P>) => Promise<void>): Promise<void> {
  try {
    await stage.watch(() => work(stage));
  } finally {
    await stage.end();
  }
}

function makeDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'butler-e2e-'));
  mkdirSync(join(dir, 'script'));
  return dir;
}
