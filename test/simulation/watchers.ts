import { ButlerError, type SessionKey, sessionName } from '#protocol';
import { UnavailableError } from '#platform';
import type { Coverage } from './coverage.js';
import { demand } from './invariants/violation.js';
import type { SimulatedPod } from './simulated-pod.js';
import type { World } from './world.js';

/** How long a watcher that was cut off waits before it comes again, at most. */
const AGAIN_MS = 2_000;

/** One reader of one session: comes again wherever it can, behind its cursor (I10). */
export class Watcher {
  cursor = 0;
  private pod = '';
  private vanished = new AbortController();
  private isLeaving = false;

  constructor(
    readonly session: SessionKey,
    private readonly world: World,
    private readonly pods: () => readonly SimulatedPod[],
    private readonly coverage: Coverage,
  ) {
    this.comeAgain();
  }

  /** Nothing will come from this pod any more. */
  onDeath(pod: string): void {
    if (this.pod === pod) this.comeAgain();
  }

  /** Looks away for good. */
  leave(): void {
    this.isLeaving = true;
    this.vanished.abort();
  }

  private comeAgain(): void {
    this.pod = '';
    this.vanished = new AbortController();
    if (this.isLeaving) return;
    const ms = this.world.random.fraction() * AGAIN_MS;
    this.world.after('world', ms, 'a watcher comes', () => {
      const pods = this.pods();
      const pod = pods[this.world.random.below(pods.length)];
      if (pod && !this.isLeaving) void this.watch(pod);
      else this.comeAgain();
    });
  }

  private async watch(pod: SimulatedPod): Promise<void> {
    this.pod = pod.name;
    const { signal } = this.vanished;
    try {
      for await (const frame of await pod.streams.open(this.session, this.cursor, signal)) {
        if (frame.kind === 'event') this.read(frame.event.seq);
        this.coverage.count('watched', frame.kind);
      }
    } catch (error) {
      const isToBe =
        error instanceof UnavailableError || (error instanceof ButlerError && error.code !== 'validation_failed');
      if (!isToBe) this.world.fail(error);
    }
    if (this.pod === pod.name) this.comeAgain();
  }

  private read(seq: number): void {
    demand(
      seq === this.cursor + 1,
      'I10',
      `a watcher of ${sessionName(this.session)} gets ${seq} behind ${this.cursor}`,
    );
    this.cursor = seq;
  }
}
