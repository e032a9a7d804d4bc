import { Inject, Injectable, Logger } from '@nestjs/common';
import { ButlerError, type SessionKey, sessionName } from '#protocol';
import { Clock, Settings, StepPoints, type Timer } from '#platform';
import { EventLedger, LiveEvents } from '#event-ledger';
import { type Follow, SessionFeed } from './session-feed.js';
import { SessionWatch } from './session-watch.js';

/** Sessions asked about in one query of the sweep. */
const SWEEP_BATCH = 1000;

/**
 * Everybody who watches a session through this pod: catch up from the cursor, then follow. Subscribe first, then read the
 * ledger, then pass on what is live; so nothing falls between (I10). Notifications are hints: one query per
 * SWEEP_INTERVAL_MS over all sessions watched here finds what they have missed.
 *
 * Owns: the feeds, one per watched session, and the sweep, which runs only while there are any. An idle pod does nothing.
 */
@Injectable()
export class SessionStreams {
  private readonly logger = new Logger(SessionStreams.name);
  private readonly feeds = new Map<string, SessionFeed>();
  private sweepTimer: Timer | null = null;
  private sweeping = false;
  private subscriptions = 0;
  private draining = false;

  constructor(
    @Inject(EventLedger) private readonly ledger: Pick<EventLedger, 'findSession' | 'events' | 'lastSeqs'>,
    @Inject(LiveEvents) private readonly live: Pick<LiveEvents, 'follow'>,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(StepPoints) private readonly steps: StepPoints,
    @Inject(Settings) private readonly settings: Pick<Settings, 'sweepIntervalMs'>,
  ) {}

  /**
   * Begins to watch. Whoever is answered a watch reads it to its end, or aborts `vanished`, at whatever moment: from then
   * on nothing is held for it.
   * @param after the cursor; null: from now
   * @throws ButlerError not_found, validation_failed (a cursor past the last event), draining; UnavailableError
   */
  async open(session: SessionKey, after: number | null, vanished: AbortSignal): Promise<SessionWatch> {
    this.assertOpen();
    const row = await this.ledger.findSession(session);
    await this.steps.reach('stream.found', { ...session });
    if (!row) throw new ButlerError('not_found', 'There is no such session.', { sessionId: session.sessionId });
    if (after !== null && after > row.lastSeq) throw pastTheEnd(after, row.lastSeq);
    this.assertOpen();
    const feed = this.feedOf(session);
    const watch = new SessionWatch(
      {
        session,
        ledger: this.ledger,
        clock: this.clock,
        following: feed.following(),
        left: (leaving) => this.left(feed, leaving),
      },
      after ?? row.lastSeq,
    );
    feed.join(watch);
    if (vanished.aborted) watch.leave();
    else vanished.addEventListener('abort', () => watch.leave(), { once: true });
    return watch;
  }

  /** Ends every stream with the hint to reconnect elsewhere, and takes no new ones. */
  drain(): void {
    this.draining = true;
    for (const feed of [...this.feeds.values()]) feed.end();
  }

  /** What is held at present: all zero when nobody watches. */
  counts(): { sessions: number; watches: number; subscriptions: number } {
    const feeds = [...this.feeds.values()];
    return {
      sessions: feeds.length,
      watches: feeds.reduce((sum, feed) => sum + feed.size, 0),
      subscriptions: this.subscriptions,
    };
  }

  private assertOpen(): void {
    if (this.draining) throw new ButlerError('draining', 'This pod is on its way out. Connect again.');
  }

  private feedOf(session: SessionKey): SessionFeed {
    const known = this.feeds.get(sessionName(session));
    if (known) return known;
    const { account, sessionId } = session;
    const feed = new SessionFeed({ account, sessionId }, this.follow, this.clock);
    this.feeds.set(sessionName(session), feed);
    this.sweepTimer ??= this.clock.every(this.settings.sweepIntervalMs, () => void this.sweep());
    return feed;
  }

  /** Counted from the moment it is asked for until it has been given up. */
  private readonly follow: Follow = async (session, listener) => {
    this.subscriptions++;
    try {
      const unfollow = await this.live.follow(session, listener);
      return () => {
        this.subscriptions--;
        unfollow();
      };
    } catch (error) {
      this.subscriptions--;
      throw error;
    }
  };

  private left(feed: SessionFeed, watch: SessionWatch): void {
    feed.leave(watch);
    if (feed.size > 0) return;
    feed.close();
    this.feeds.delete(sessionName(feed.session));
    if (this.feeds.size > 0) return;
    this.sweepTimer?.cancel();
    this.sweepTimer = null;
  }

  private async sweep(): Promise<void> {
    if (this.sweeping) return;
    this.sweeping = true;
    try {
      const feeds = [...this.feeds.values()];
      for (let at = 0; at < feeds.length; at += SWEEP_BATCH) {
        const batch = feeds.slice(at, at + SWEEP_BATCH);
        const lastSeqs = await this.ledger.lastSeqs(batch.map(({ session }) => session));
        batch.forEach((feed, index) => feed.compare(lastSeqs[index]!));
      }
    } catch (error) {
      this.logger.warn({ err: error }, 'the sweep over watched sessions failed and is repeated at the next interval');
    } finally {
      this.sweeping = false;
    }
  }
}

function pastTheEnd(after: number, lastSeq: number): ButlerError {
  const message = `is past the session's last event, ${lastSeq}`;
  return new ButlerError('validation_failed', `The cursor ${after} ${message}. Read the session's events first.`, {
    errors: [{ path: 'after', message }],
    lastSeq,
  });
}
