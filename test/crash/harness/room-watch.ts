import type { Pod } from '../../e2e/harness/pod.js';

/** Looks again and again how many actors of each pod are at work. */
export class RoomWatch {
  private most = 0;
  private over = false;

  private constructor(
    private readonly pods: readonly Pod[],
    private looking: Promise<void> = Promise.resolve(),
  ) {}

  static over(pods: readonly Pod[]): RoomWatch {
    const watch = new RoomWatch(pods);
    watch.looking = watch.look();
    return watch;
  }

  /** The most that worked at one pod at a time. */
  async end(): Promise<number> {
    this.over = true;
    await this.looking;
    return this.most;
  }

  private async look(): Promise<void> {
    while (!this.over) {
      for (const pod of this.pods) this.most = Math.max(this.most, (await pod.look()).actors.active);
    }
  }
}
