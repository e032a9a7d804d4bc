import type { ServerResponse } from 'node:http';
import type { Clock } from '#platform';
import type { SessionWatch, StreamFrame } from '#event-stream';

export const KEEP_ALIVE_MS = 15_000;
/** A reader whose socket takes nothing for so long is cut off, like one whose buffer is full. */
export const STALL_LIMIT_MS = 30_000;
/** How long the last frame may take to leave before the socket is closed hard. */
export const FLUSH_LIMIT_MS = 2_000;
const RECONNECT_MS = 1000;

type Watch = Pick<SessionWatch, 'end' | 'ended'> & AsyncIterable<StreamFrame>;

/**
 * Writes a watch as Server-Sent Events until it ends or the client vanishes. Takes the next frame only when the socket
 * has taken the last, so what a slow client does not read waits in the watch, which is bounded.
 */
export async function writeStream(response: ServerResponse, watch: Watch, clock: Clock): Promise<void> {
  // A write that meets a closed socket says so here; `close` follows and ends the watch.
  response.on('error', () => {});
  response.writeHead(200, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-cache, no-transform',
    'X-Accel-Buffering': 'no',
    // The connection ends with the stream, so that none is left idle when the pod must go.
    Connection: 'close',
  });
  response.write(`retry: ${RECONNECT_MS}\n\n`);
  const keepAlive = clock.every(KEEP_ALIVE_MS, () => {
    if (!response.writableNeedDrain && !response.destroyed) response.write(': keep-alive\n\n');
  });
  try {
    for await (const frame of watch) {
      if (response.destroyed) break;
      if (!response.write(textOf(frame))) await writable(response, watch, clock);
    }
  } finally {
    keepAlive.cancel();
    finish(response, clock);
  }
}

function textOf(frame: StreamFrame): string {
  switch (frame.kind) {
    case 'event':
      return `id: ${frame.event.seq}\nevent: ${frame.event.type}\ndata: ${frame.json}\n\n`;
    case 'delta':
      return `event: ${frame.delta.type}\ndata: ${frame.json}\n\n`;
    case 'end':
      return `event: stream.end\ndata: ${JSON.stringify({ reason: frame.reason, after: frame.after })}\n\n`;
  }
}

/** Resolves when the socket takes more, is gone, or when waiting for it is over because the watch has ended. */
function writable(response: ServerResponse, watch: Watch, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    const go = (): void => {
      stall.cancel();
      response.off('drain', go).off('close', go);
      watch.ended.removeEventListener('abort', go);
      resolve();
    };
    const stall = clock.after(STALL_LIMIT_MS, () => watch.end('slow'));
    response.on('drain', go).on('close', go);
    watch.ended.addEventListener('abort', go);
    if (watch.ended.aborted || response.destroyed) go();
  });
}

function finish(response: ServerResponse, clock: Clock): void {
  if (response.destroyed) return;
  const limit = clock.after(FLUSH_LIMIT_MS, () => response.destroy());
  response.once('close', () => limit.cancel()).once('finish', () => limit.cancel());
  response.end();
}
