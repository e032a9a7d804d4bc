import { createParser, type EventSourceMessage } from 'eventsource-parser';
import type { Event, LiveDelta } from '#protocol';
import { inTime } from './linked-abort.js';
import { NetworkError } from './network.error.js';
import type { ClientClock } from './surroundings.js';

/** A stream that says nothing for so long, not even a heartbeat (one every 15 s), is dead. */
export const SILENCE_MS = 45_000;
/** The ledger takes events of up to 8 MiB. */
const FRAME_MAX_CHARS = 16 * 1024 * 1024;

export type EndReason = 'draining' | 'slow' | 'expired' | (string & {});

export type StreamFrame =
  | { kind: 'event'; event: Event }
  | { kind: 'delta'; delta: LiveDelta }
  | { kind: 'heartbeat' }
  /** How long to wait before connecting again, in ms. */
  | { kind: 'retry'; ms: number }
  | { kind: 'end'; reason: EndReason };

/**
 * The frames of one stream, until the server closes it. Reads when it is asked, and so leaves what the reader does not
 * take to the server, which cuts a slow one off. Silence counts only while it reads.
 * @throws NetworkError when the stream breaks, falls silent or cannot be understood
 */
export async function* readFrames(
  body: ReadableStream<Uint8Array>,
  clock: ClientClock,
): AsyncGenerator<StreamFrame, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const frames: StreamFrame[] = [];
  const parser = frameParser((frame) => frames.push(frame));
  try {
    for (;;) {
      const { done, value } = await inTime(clock, SILENCE_MS, 'The stream said nothing', read(reader));
      if (done) return;
      parser.feed(decoder.decode(value, { stream: true }));
      yield* frames.splice(0);
    }
  } finally {
    // It may be broken, or stand still: nobody waits for that.
    reader.cancel().catch(() => undefined);
  }
}

async function read(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<{ done: boolean; value?: Uint8Array }> {
  try {
    return await reader.read();
  } catch (cause) {
    throw new NetworkError('The stream broke.', { cause });
  }
}

function frameParser(emit: (frame: StreamFrame) => void): ReturnType<typeof createParser> {
  return createParser({
    maxBufferSize: FRAME_MAX_CHARS,
    onEvent: (message) => {
      const frame = frameOf(message);
      if (frame) emit(frame);
    },
    onComment: () => emit({ kind: 'heartbeat' }),
    onRetry: (ms) => emit({ kind: 'retry', ms }),
    onError: (cause) => {
      if (cause.type === 'max-buffer-size-exceeded') throw new NetworkError('A frame is too large.', { cause });
    },
  });
}

/** Null: a kind of frame that a newer server has. Whatever has an id is an event. */
function frameOf({ id, event, data }: EventSourceMessage): StreamFrame | null {
  if (id !== undefined) return { kind: 'event', event: parse(data) as Event };
  if (event === 'model.delta') return { kind: 'delta', delta: parse(data) as LiveDelta };
  if (event === 'stream.end') return { kind: 'end', reason: (parse(data) as { reason: EndReason }).reason };
  return null;
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch (cause) {
    throw new NetworkError('A frame of the stream is no JSON.', { cause });
  }
}
