import type { Event, SessionKey } from '#protocol';
import { type Clock, UnavailableError } from '#platform';
import type { EventLedger } from '#event-ledger';
import { type EndReason, eventItem, type LiveItem, type StreamFrame } from './stream-frame.js';

/** Events of one read of the ledger, at most; fewer while they are so large that a page of them would be over its size. */
const PAGE_MAX_EVENTS = 256;
const FIRST_PAGE_EVENTS = 8;
const PAGE_CHARS = 512 * 1024;
/** What waits for one watcher at most; one that is further behind is cut off. */
export const WATCH_MAX_FRAMES = 1000;
export const WATCH_MAX_CHARS = 4 * 1024 * 1024;
/** How long after a failed read of the ledger the next one follows. */
const LEDGER_RETRY_MS = 1000;

export interface WatchDeps {
  session: SessionKey;
  ledger: Pick<EventLedger, 'events'>;
  clock: Clock;
  /** Resolves when live events are being followed, or when waiting for that longer is not worth it. */
  following: Promise<void>;
  /** Called once, at the end. */
  left(watch: SessionWatch): void;
}

/**
 * One watcher of one session: gives every event behind its cursor in order, each once (I10), and live text in between.
 *
 * Owns: its cursor and its bounded buffer. Does not own: the subscription (its feed does), nor the socket. The reader
 * pulls; `push`, `reread`, `end` and `leave` may come at any moment, also while the reader waits for a read or is stuck.
 *
 * `stale` means: the ledger must be read before anything else is given. What was pushed until then was committed before
 * that read begins, so it is dropped and found there. What comes while a read is under way waits behind it.
 */
export class SessionWatch implements AsyncIterable<StreamFrame> {
  private stale = true;
  private pageEvents = FIRST_PAGE_EVENTS;
  private readonly waiting: LiveItem[] = [];
  private waitingChars = 0;
  private ending: EndReason | 'left' | null = null;
  private readonly closing = new AbortController();
  private wake: () => void = () => {};

  /** @param cursor the seq of the last event that the reader has */
  constructor(
    private readonly deps: WatchDeps,
    private cursor: number,
  ) {}

  /** Aborts when nothing but the end frame will come: a reader that is stuck on its socket need not wait for it. */
  get ended(): AbortSignal {
    return this.closing.signal;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<StreamFrame, void, undefined> {
    try {
      if (!this.ending) await this.deps.following;
      while (!this.ending) {
        if (this.stale) yield* this.catchUp();
        else if (this.waiting.length > 0) yield* this.next();
        else await new Promise<void>((resolve) => (this.wake = resolve));
      }
      if (this.ending !== 'left') yield { kind: 'end', reason: this.ending, after: this.cursor };
    } finally {
      this.leave();
    }
  }

  push(item: LiveItem): void {
    if (this.stale || this.ending) return;
    this.waiting.push(item);
    this.waitingChars += item.json.length;
    if (this.waiting.length > WATCH_MAX_FRAMES || this.waitingChars > WATCH_MAX_CHARS) this.end('slow');
    else this.wake();
  }

  /** A notification may have been lost. */
  reread(): void {
    this.stale = true;
    this.clear();
    this.wake();
  }

  /** Tells what the ledger has; whatever this watcher has not heard of is read. */
  compare(lastSeq: number): void {
    const heard = this.waiting.findLast((item) => item.kind === 'event');
    if (lastSeq > (heard ? heard.event.seq : this.cursor)) this.reread();
  }

  /** The reader is given the end frame next, and no more. */
  end(reason: EndReason): void {
    if (this.ending === null) this.close(reason);
  }

  /** The reader is gone: nothing is given any more, nothing is held from now on. */
  leave(): void {
    if (this.ending !== 'left') this.close('left');
  }

  private close(ending: EndReason | 'left'): void {
    const first = this.ending === null;
    this.ending = ending;
    this.clear();
    if (first) this.deps.left(this);
    this.closing.abort(new Error(`the stream ends: ${ending}`));
    this.wake();
  }

  private async *catchUp(): AsyncGenerator<LiveItem, void, undefined> {
    this.stale = false;
    const limit = this.pageEvents;
    const page = (await this.read(limit)).map((event) => ({ seq: event.seq, item: eventItem(event) }));
    const chars = page.reduce((sum, { item }) => sum + item.json.length, 0);
    this.pageEvents = chars > PAGE_CHARS ? Math.ceil(limit / 2) : Math.min(limit * 2, PAGE_MAX_EVENTS);
    for (const { seq, item } of page) {
      if (this.ending) return;
      this.cursor = seq;
      yield item;
    }
    if (page.length === limit) this.reread();
    else this.dropOutdated();
  }

  private async *next(): AsyncGenerator<LiveItem, void, undefined> {
    const item = this.waiting.shift()!;
    this.waitingChars -= item.json.length;
    if (item.kind === 'delta') yield item;
    else if (item.event.seq > this.cursor + 1) this.reread();
    else if (item.event.seq === this.cursor + 1) {
      this.cursor = item.event.seq;
      yield item;
    }
  }

  /** Live text that came before an event which the ledger has answered says nothing new. */
  private dropOutdated(): void {
    const last = this.waiting.findLastIndex((item) => item.kind === 'event' && item.event.seq <= this.cursor);
    for (const item of this.waiting.splice(0, last + 1)) this.waitingChars -= item.json.length;
  }

  /** While the ledger is away the reader stays, and is served when it is back. */
  private async read(limit: number): Promise<Event[]> {
    while (!this.ending) {
      try {
        return await this.deps.ledger.events(this.deps.session, this.cursor, limit);
      } catch (error) {
        if (!(error instanceof UnavailableError)) throw error;
        await this.deps.clock.sleep(LEDGER_RETRY_MS, this.closing.signal).catch(() => {});
      }
    }
    return [];
  }

  private clear(): void {
    this.waiting.length = 0;
    this.waitingChars = 0;
  }
}
