import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../apps/server/src/main.js', import.meta.url));
const START_LIMIT_MS = 30_000;

/** A pod in a process of its own, as `npm start` runs it. */
export class BenchPod {
  private constructor(
    private readonly child: ChildProcess,
    readonly url: string,
  ) {}

  static async start(podId: string, env: Record<string, string>): Promise<BenchPod> {
    const child = spawn(process.execPath, [...(process.env.BENCH_NODE_OPTIONS?.split(' ') ?? []), MAIN], {
      env: { ...process.env, PORT: '0', POD_ID: podId, AUTH_MODE: 'dev', AGENT: 'script', LOG_LEVEL: 'error', ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    const listens = new Promise<string>((resolve, reject) => {
      child.stdout!.on('data', (chunk: Buffer) => {
        output += chunk.toString();
        const [, url] = /listens at (\S+)\. Try/.exec(output) ?? [];
        if (url) resolve(url);
      });
      child.once('exit', (code) => reject(new Error(`the pod ended with ${code}: ${output}`)));
      AbortSignal.timeout(START_LIMIT_MS).addEventListener('abort', () =>
        reject(new Error(`the pod does not start: ${output}`)),
      );
    });
    return new BenchPod(child, await listens);
  }

  get pid(): number {
    return this.child.pid!;
  }

  async stop(): Promise<void> {
    this.child.kill('SIGTERM');
    if (this.child.exitCode === null) await once(this.child, 'exit');
  }
}
