import type { Pod, PodExit } from '../../e2e/harness/pod.js';
import type { Stage } from '../../e2e/harness/stage.js';

/** The pods that serve now. A new one has a new name, as in a cluster. */
export class Fleet {
  readonly pods: Pod[] = [];
  private names = 0;

  constructor(
    private readonly stage: Pick<Stage, 'start'>,
    private readonly settings: Record<string, string>,
  ) {}

  /** Resolves when they listen. */
  async start(count = 1): Promise<Pod[]> {
    const names = Array.from({ length: count }, () => `pod-${++this.names}`);
    const started = await this.stage.start(names, this.settings);
    this.pods.push(...started);
    return started;
  }

  /** SIGTERM. It belongs to the fleet until its process is gone. */
  async terminate(pod: Pod): Promise<PodExit & { tookMs: number }> {
    const exit = await pod.terminate();
    this.forget(pod);
    return exit;
  }

  /** kill -9. */
  async kill(pod: Pod): Promise<void> {
    this.forget(pod);
    await pod.kill();
  }

  private forget(pod: Pod): void {
    this.pods.splice(this.pods.indexOf(pod), 1);
  }
}
