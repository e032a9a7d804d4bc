import type { Event, LiveDelta } from '#protocol';
import { AdjoiningText } from './adjoining-text.js';
import { ApiError } from './api.error.js';
import { inTime, LinkedAbort } from './linked-abort.js';
import { NetworkError } from './network.error.js';
import { backoffMs } from './retry.policy.js';
import { readFrames, SILENCE_MS } from './stream.reader.js';
import type { Surroundings } from './surroundings.js';

/** The wait before connecting again, in ms, until the server says how long (`retry:`). */
const RECONNECT_MS = 1_000;
const RECONNECT_MIN_MS = 100;
/** What that wait doubles up to while connecting fails. */
const RECONNECT_MAX_MS = 30_000;
/** How long a server may keep a watch away with Retry-After. */
const RETRY_AFTER_MAX_MS = 60_000;

/** What a watch gives: events, which have a `seq`, and live text, `type: 'model.delta'`, which has none. */
export type Frame = Event | LiveDelta;

export type WatchState =
  | { state: 'connecting' }
  /** The stream stands. */
  | { state: 'live' }
  /** Not connected. `retryAtMs`: when it tries next, in ms since 1970. `error`: null when the server ended the stream. */
  | { state: 'waiting'; retryAtMs: number; error: ApiError | NetworkError | null };

export interface WatchOptions {
  /** The seq of the last event that you have; 0: from the beginning. Left out: from now. */
  after?: number;
  /** Ends the watch: the iteration is then over, without an error. */
  signal?: AbortSignal;
  /** Told each change of the connection. */
  onState?: (state: WatchState) => void;
}

/** What a watch asks of one session, one attempt each. */
export interface WatchSource {
  lastSeq(signal: AbortSignal): Promise<number>;
  /** The events behind `after`, a page of them at most. */
  events(after: number, signal: AbortSignal): Promise<Event[]>;
  open(after: number, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
}

/** How a connection came to its end: with a `stream.end` (null), or by itself. */
type Ending = ApiError | NetworkError | null;

/**
 * Follows one session over as many connections as it takes: every event behind the cursor once and in order (I10), live
 * text in between.
 *
 * Owns: the cursor, the connection, the waits. The reader pulls; nothing is read ahead, and nothing happens while nobody
 * pulls. The cursor moves just before an event is given, so no connection can give one again; one that is missing
 * between two is read from the ledger's events before the later one is given.
 */
export class Watch {
  private cursor: number | null;
  private reconnectMs = RECONNECT_MS;
  /** Connections in a row that brought nothing. */
  private failures = 0;
  private readonly text = new AdjoiningText();

  constructor(
    private readonly source: WatchSource,
    private readonly options: WatchOptions,
    private readonly surroundings: Pick<Surroundings, 'clock' | 'randomness'>,
  ) {
    this.cursor = options.after ?? null;
  }

  async *frames(): AsyncGenerator<Frame, void, undefined> {
    const { signal } = this.options;
    try {
      for (;;) {
        signal?.throwIfAborted();
        await this.pause(yield* this.connection());
      }
    } catch (error) {
      if (!signal?.aborted) throw error;
    }
  }

  private async *connection(): AsyncGenerator<Frame, Ending, undefined> {
    const { clock } = this.surroundings;
    const link = new LinkedAbort(this.options.signal);
    try {
      this.tell({ state: 'connecting' });
      // Not "from now" at the stream itself: a first connection that breaks would not know what it missed.
      this.cursor ??= await this.source.lastSeq(link.signal);
      const opening = this.source.open(this.cursor, link.signal);
      const body = await inTime(clock, SILENCE_MS, 'The stream was not opened', opening);
      this.tell({ state: 'live' });
      for await (const frame of readFrames(body, clock)) {
        if (frame.kind === 'end') return null;
        if (frame.kind === 'retry') this.reconnectMs = clamp(frame.ms, RECONNECT_MIN_MS, RECONNECT_MAX_MS);
        else this.failures = 0;
        if (frame.kind === 'event') yield* this.take(frame.event, link.signal);
        if (frame.kind === 'delta' && this.text.takes(frame.delta)) yield frame.delta;
      }
      return new NetworkError('The stream was closed without a word.');
    } catch (error) {
      this.options.signal?.throwIfAborted();
      return endingOf(error);
    } finally {
      link.end();
    }
  }

  private async *take(event: Event, signal: AbortSignal): AsyncGenerator<Event, void, undefined> {
    while (event.seq > this.cursor! + 1) {
      const before = this.cursor!;
      for (const missing of await this.source.events(before, signal)) yield* this.give(missing);
      if (this.cursor === before) throw new NetworkError(`The events behind ${before} are not to be had.`);
    }
    yield* this.give(event);
  }

  private *give(event: Event): Generator<Event, void, undefined> {
    if (event.seq !== this.cursor! + 1) return;
    this.cursor = event.seq;
    this.text.hear(event);
    yield event;
  }

  /** After a `stream.end` at once, unless that came at once too; else as told, longer with each failure. */
  private async pause(error: Ending): Promise<void> {
    const { clock, randomness } = this.surroundings;
    this.failures++;
    if (error === null && this.failures === 1) return;
    const ownMs = backoffMs(this.reconnectMs, RECONNECT_MAX_MS, this.failures, randomness.fraction());
    const askedMs = error instanceof ApiError ? (error.retryAfterS ?? 0) * 1000 : 0;
    const waitMs = Math.max(ownMs, Math.min(askedMs, RETRY_AFTER_MAX_MS));
    this.tell({ state: 'waiting', retryAtMs: clock.now() + waitMs, error });
    await clock.sleep(waitMs, this.options.signal);
  }

  private tell(state: WatchState): void {
    this.options.onState?.(state);
  }
}

/** What a watch goes on after: no connection, or a server that is not well. @throws everything else */
function endingOf(error: unknown): ApiError | NetworkError {
  if (error instanceof NetworkError) return error;
  if (error instanceof ApiError && (error.status >= 500 || error.isRetryable)) return error;
  throw error;
}

function clamp(value: number, min: number, max: number): number {
  return Math.min(Math.max(value, min), max);
}
