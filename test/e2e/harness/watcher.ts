import { createParser } from 'eventsource-parser';
import type { Event, LiveDelta } from '#protocol';
import type { Caller } from './caller.js';
import { until } from './until.js';

interface From {
  /** As `?after=`. */
  after?: number;
  /** As the header Last-Event-ID. */
  lastEventId?: number;
}

/** A client of a session's stream. It keeps what it is told until it is closed. */
export class Watcher {
  readonly events: Event[] = [];
  /** The `id:` of each event, as the stream gave it. */
  readonly ids: string[] = [];
  readonly deltas: LiveDelta[] = [];
  readonly comments: string[] = [];
  retryMs: number | null = null;
  /** What `stream.end` said. */
  hint: { reason: string; after: number } | null = null;
  /** Whether the server has closed the stream. */
  closed = false;
  private readonly leaving = new AbortController();

  /** Resolves when the stream is open. */
  static async open(
    caller: Caller,
    pod: { readonly url: string },
    sessionId: string,
    from: From = {},
  ): Promise<Watcher> {
    const watcher = new Watcher();
    const query = from.after === undefined ? '' : `?after=${from.after}`;
    const response = await fetch(`${pod.url}/v1/sessions/${sessionId}/stream${query}`, {
      headers: {
        ...caller.headers,
        accept: 'text/event-stream',
        ...(from.lastEventId !== undefined && { 'last-event-id': String(from.lastEventId) }),
      },
      signal: watcher.leaving.signal,
    });
    if (response.status !== 200 || !response.body) throw new Error(`the stream was answered ${response.status}`);
    void watcher.read(response.body);
    return watcher;
  }

  get seqs(): number[] {
    return this.events.map((event) => event.seq);
  }

  get lastSeq(): number {
    return this.events.at(-1)?.seq ?? 0;
  }

  /** Resolves when an event of this type, of this turn if given, has come. */
  async sees(type: Event['type'], turnId?: string, limitMs?: number): Promise<Event> {
    const look = (): Event | undefined =>
      this.events.find((event) => event.type === type && (turnId === undefined || event.turnId === turnId));
    return until(`the watcher sees ${type}`, look, limitMs);
  }

  close(): void {
    this.leaving.abort();
  }

  private async read(body: ReadableStream<Uint8Array>): Promise<void> {
    const parser = createParser({
      onEvent: ({ event, id, data }) => {
        if (event === 'model.delta') this.deltas.push(JSON.parse(data) as LiveDelta);
        else if (event === 'stream.end') this.hint = JSON.parse(data) as { reason: string; after: number };
        else {
          this.events.push(JSON.parse(data) as Event);
          this.ids.push(id ?? '');
        }
      },
      onComment: (comment) => this.comments.push(comment.trim()),
      onRetry: (ms) => (this.retryMs = ms),
    });
    try {
      for await (const text of body.pipeThrough(new TextDecoderStream())) parser.feed(text);
    } catch {
      // Closed by this side, or the pod is gone: what was told until then stands.
    }
    this.closed = true;
  }
}
