import type { Pod } from '../../e2e/harness/pod.js';
import { until } from '../../e2e/harness/until.js';

const LOOK_EVERY_MS = 50;
/** Liveness is to be answered within this, whatever is away. */
const LIVE_LIMIT_MS = 1000;

/** Asks pods for their liveness all the time, as a cluster does that restarts whoever does not answer. */
export class ProbeWatch {
  private readonly faults: string[] = [];
  private readonly timer: NodeJS.Timeout;
  private readonly under: Set<Promise<void>> = new Set();

  constructor(pods: readonly Pod[]) {
    this.timer = setInterval(() => {
      for (const pod of pods) {
        const look = this.look(pod).finally(() => this.under.delete(look));
        this.under.add(look);
      }
    }, LOOK_EVERY_MS);
  }

  /** What went wrong with liveness until now; no more looks. */
  async end(): Promise<string[]> {
    clearInterval(this.timer);
    await Promise.all(this.under);
    return this.faults;
  }

  private async look(pod: Pod): Promise<void> {
    try {
      const answer = await fetch(`${pod.url}/health/live`, { signal: AbortSignal.timeout(LIVE_LIMIT_MS) });
      if (answer.status !== 200) this.faults.push(`${pod.name}: ${answer.status}`);
    } catch (error) {
      this.faults.push(`${pod.name}: ${String(error)}`);
    }
  }
}

/** Resolves when readiness is answered so, with what it says is down; each answer comes within `withinMs`. */
export function readiness(pod: Pod, status: 200 | 503, withinMs = 2000): Promise<string[]> {
  return until(`readiness of ${pod.name} is ${status}`, async () => {
    const answer = await fetch(`${pod.url}/health/ready`, { signal: AbortSignal.timeout(withinMs) });
    const { error } = (await answer.json()) as { error: Record<string, unknown> };
    return answer.status === status && Object.keys(error);
  });
}
