import type { SessionKey } from '#protocol';
import type { Clock } from '#platform';
import type { LiveEvents, LiveFrame } from '#event-ledger';
import type { SessionWatch } from './session-watch.js';
import { deltaItem, eventItem } from './stream-frame.js';

/** How long a new watcher waits for the subscription; after that it reads the ledger without, and again once it stands. */
export const FOLLOW_WAIT_MS = 1000;

export type Follow = LiveEvents['follow'];

/**
 * All watchers of one session on this pod, and the one subscription that they share.
 *
 * Owns: the subscription, from the first watcher to the last, also while it is still being made. A subscription that
 * cannot be had is asked for again at each sweep; until it stands, the sweep alone serves the watchers.
 */
export class SessionFeed {
  private readonly watches = new Set<SessionWatch>();
  private unfollow: (() => void) | null = null;
  private making = false;
  private closed = false;
  private standing: Promise<void> = Promise.resolve();
  private stopWaiting: () => void = () => {};

  constructor(
    readonly session: SessionKey,
    private readonly follow: Follow,
    private readonly clock: Clock,
  ) {}

  get size(): number {
    return this.watches.size;
  }

  /** Resolves when the subscription stands, or after FOLLOW_WAIT_MS, or when everybody has left. Never rejects. */
  following(): Promise<void> {
    this.subscribe();
    return this.standing;
  }

  join(watch: SessionWatch): void {
    this.watches.add(watch);
  }

  leave(watch: SessionWatch): void {
    this.watches.delete(watch);
  }

  /** One look at the ledger's last seq. */
  compare(lastSeq: number): void {
    this.subscribe();
    for (const watch of this.watches) watch.compare(lastSeq);
  }

  end(): void {
    for (const watch of [...this.watches]) watch.end('draining');
  }

  /** To be called when the last watcher has left. */
  close(): void {
    this.closed = true;
    this.stopWaiting();
    this.unfollow?.();
    this.unfollow = null;
  }

  private subscribe(): void {
    if (this.unfollow || this.making || this.closed) return;
    this.making = true;
    this.standing = new Promise((resolve) => {
      const timer = this.clock.after(FOLLOW_WAIT_MS, resolve);
      this.stopWaiting = () => {
        timer.cancel();
        resolve();
      };
    });
    void this.make();
  }

  private async make(): Promise<void> {
    try {
      const unfollow = await this.follow(this.session, (frame) => this.pass(frame));
      if (this.closed) return unfollow();
      this.unfollow = unfollow;
      // What was read before this moment may have been read too early.
      for (const watch of this.watches) watch.reread();
    } catch {
      // The next sweep asks again.
    } finally {
      this.making = false;
      this.stopWaiting();
    }
  }

  /** Events that were too large to be broadcast are missing from a frame; `lastSeq` tells. */
  private pass(frame: LiveFrame): void {
    const items = frame.kind === 'events' ? frame.events.map(eventItem) : [deltaItem(frame.delta)];
    for (const watch of [...this.watches]) {
      for (const item of items) watch.push(item);
      if (frame.kind === 'events') watch.compare(frame.lastSeq);
    }
  }
}
