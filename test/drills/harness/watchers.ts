import type { Id } from '#protocol';
import type { ButlerClient } from '#client';
import { until } from '../../e2e/harness/until.js';

/** Readers of some sessions, through the client, for the whole drill. */
export class Watchers {
  private readonly leaving = new AbortController();
  private readonly watchers: SessionWatcher[];

  constructor(client: ButlerClient, sessions: readonly Id[]) {
    this.watchers = sessions.map((session) => new SessionWatcher(client, session, this.leaving.signal));
  }

  /** Resolves when all have their first event. From then on gaps count, until `rest`. */
  async begin(): Promise<void> {
    await until('every watcher sees something', () => this.watchers.every((watcher) => watcher.lastSeq > 0));
    for (const watcher of this.watchers) watcher.begin();
  }

  /** Nothing more is said, so gaps do not count any more. */
  rest(): void {
    for (const watcher of this.watchers) watcher.rest();
  }

  /** Resolves with those who have not seen all, when none is left or `limitMs` is over. */
  async leave(lastSeqs: ReadonlyMap<Id, number>, limitMs: number): Promise<string[]> {
    const behind = (): SessionWatcher[] =>
      this.watchers.filter(({ session, lastSeq }) => lastSeq !== lastSeqs.get(session));
    await until('every watcher has seen all', () => behind().length === 0, limitMs).catch(() => undefined);
    const missing = behind().map(({ session, lastSeq }) => `${session} at ${lastSeq} of ${lastSeqs.get(session)}`);
    this.leaving.abort();
    await Promise.all(this.watchers.map(({ watching }) => watching));
    return [...missing, ...this.watchers.flatMap(({ faults }) => faults)];
  }

  get longestGapMs(): number {
    return Math.max(...this.watchers.map((watcher) => watcher.longestGapMs));
  }

  get longestReconnectMs(): number {
    return Math.max(...this.watchers.map((watcher) => watcher.longestReconnectMs));
  }

  get reconnects(): number {
    return this.watchers.reduce((sum, { reconnects }) => sum + reconnects, 0);
  }
}

class SessionWatcher {
  lastSeq = 0;
  longestGapMs = 0;
  longestReconnectMs = 0;
  reconnects = 0;
  readonly faults: string[] = [];
  readonly watching: Promise<void>;
  private lastMs: number | null = null;
  private brokenMs: number | null = null;
  private isLive = false;

  constructor(
    private readonly client: ButlerClient,
    readonly session: Id,
    private readonly signal: AbortSignal,
  ) {
    this.watching = this.watch().catch((error: unknown) => void this.faults.push(`${session} ended: ${String(error)}`));
  }

  begin(): void {
    this.lastMs = performance.now();
  }

  rest(): void {
    this.look();
    this.lastMs = null;
  }

  private async watch(): Promise<void> {
    const onState = ({ state }: { state: string }): void => this.stateIs(state === 'live');
    for await (const frame of this.client.watch(this.session, { after: 0, signal: this.signal, onState })) {
      this.look();
      if (!('seq' in frame)) continue;
      if (frame.seq !== this.lastSeq + 1)
        this.faults.push(`${this.session} was told ${frame.seq} after ${this.lastSeq}`);
      this.lastSeq = frame.seq;
    }
  }

  private look(): void {
    if (this.lastMs === null) return;
    const nowMs = performance.now();
    this.longestGapMs = Math.max(this.longestGapMs, nowMs - this.lastMs);
    this.lastMs = nowMs;
  }

  private stateIs(isLive: boolean): void {
    if (this.isLive && !isLive) this.brokenMs = performance.now();
    if (isLive && this.brokenMs !== null) {
      this.reconnects++;
      this.longestReconnectMs = Math.max(this.longestReconnectMs, performance.now() - this.brokenMs);
      this.brokenMs = null;
    }
    this.isLive = isLive;
  }
}
