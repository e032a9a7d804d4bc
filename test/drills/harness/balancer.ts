import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Service, startNginx } from '../../../tools/services.mjs';
import type { Pod } from '../../e2e/harness/pod.js';
import { until } from '../../e2e/harness/until.js';
import type { Fleet } from './fleet.js';
import { nginxConfig } from './nginx-config.js';

/** Looks in a row that must fail before a pod gets no more traffic. */
const UNREADY_AFTER = 2;
/** The pod itself answers within 800 ms, whatever is away. */
const READY_LIMIT_MS = 2_000;
/** As in k8s/base. */
const LIVE_LIMIT_MS = 5_000;

interface Looked {
  isUnderWay: boolean;
  /** Failed looks in a row; null: it has never been ready. */
  failures: number | null;
}

/**
 * nginx in front of a fleet, and what a cluster does for it: looks at each pod's probes and tells nginx which pods are
 * ready. In between nginx itself passes on what a pod does not take.
 */
export class Balancer {
  /** The names of pods that have said themselves that they want no more traffic. */
  readonly saidUnready = new Set<string>();
  /** Each look at a pod's liveness that was not answered well, while its process lived. */
  readonly livenessFailures: string[] = [];
  private readonly looked = new Map<Pod, Looked>();
  private told: Pod[] = [];
  private version = 0;
  private telling: Promise<void> = Promise.resolve();
  private nginx!: Service;
  private timer: NodeJS.Timeout | undefined;
  private readonly dir = mkdtempSync(join(tmpdir(), 'butler-nginx-'));

  private constructor(private readonly fleet: Fleet) {}

  /** Resolves when all pods of the fleet get traffic. */
  static async open(fleet: Fleet, lookEveryMs: number): Promise<Balancer> {
    const balancer = new Balancer(fleet);
    mkdirSync(join(balancer.dir, 'tmp'));
    balancer.nginx = await startNginx({ dir: balancer.dir, config: ({ port }) => nginxConfig({ port, version: 0 }) });
    balancer.timer = setInterval(() => balancer.look(), lookEveryMs);
    await Promise.all(fleet.pods.map((pod) => balancer.serves(pod)));
    return balancer;
  }

  get url(): string {
    return this.nginx.url;
  }

  /** Resolves when this pod gets traffic. */
  async serves(pod: Pod): Promise<void> {
    await until(`${pod.name} is ready`, () => this.told.includes(pod));
    await this.telling;
  }

  async close(): Promise<void> {
    clearInterval(this.timer);
    await this.telling.catch(() => undefined);
    await this.nginx.stop();
    rmSync(this.dir, { recursive: true, force: true });
  }

  private look(): void {
    for (const pod of this.fleet.pods) {
      const looked = this.looked.get(pod) ?? { isUnderWay: false, failures: null };
      this.looked.set(pod, looked);
      if (looked.isUnderWay) continue;
      looked.isUnderWay = true;
      void this.lookAt(pod, looked).finally(() => (looked.isUnderWay = false));
    }
    this.tell();
  }

  private async lookAt(pod: Pod, looked: Looked): Promise<void> {
    const [ready, live] = await Promise.all([probe(pod, 'ready', READY_LIMIT_MS), probe(pod, 'live', LIVE_LIMIT_MS)]);
    if (ready === 503) this.saidUnready.add(pod.name);
    if (live !== 200 && pod.alive) this.livenessFailures.push(`${pod.name}: ${live}`);
    if (ready === 200) looked.failures = 0;
    else if (looked.failures !== null) looked.failures++;
    this.tell();
  }

  /** Tells nginx, one change after the other, when those that are ready are others than it knows. */
  private tell(): void {
    const isReady = (pod: Pod): boolean => (this.looked.get(pod)?.failures ?? UNREADY_AFTER) < UNREADY_AFTER;
    const ready = this.fleet.pods.filter(isReady);
    if (ready.length === this.told.length && ready.every((pod) => this.told.includes(pod))) return;
    this.told = ready;
    const version = ++this.version;
    const pods = ready.map((pod) => new URL(pod.url).host);
    this.telling = this.telling.then(async () => {
      const { port, pid } = this.nginx;
      writeFileSync(join(this.dir, 'nginx.conf'), nginxConfig({ port, version, pods }));
      process.kill(pid, 'SIGHUP');
      const told = async (): Promise<boolean> =>
        (await (await fetch(`${this.url}/balancer/version`, { headers: { connection: 'close' } })).text()) ===
        `${version}`;
      await until('nginx has read which pods are ready', told);
    });
    this.telling.catch(() => undefined);
  }
}

/** The status, or why there is none. */
async function probe(pod: Pod, what: string, limitMs: number): Promise<number | string> {
  try {
    const response = await fetch(`${pod.url}/health/${what}`, { signal: AbortSignal.timeout(limitMs) });
    await response.arrayBuffer();
    return response.status;
  } catch (error) {
    return String(error);
  }
}
