import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, expect, it } from '@jest/globals';
import type { Event } from '#protocol';
import type { StreamFrame } from '#event-stream';
import { ManualClock } from '#test-kit';
import { FLUSH_LIMIT_MS, KEEP_ALIVE_MS, STALL_LIMIT_MS, writeStream } from './stream.writer.js';

/** A watch whose frames a test puts in. */
class PushedWatch implements AsyncIterable<StreamFrame> {
  private readonly frames: StreamFrame[] = [];
  private readonly ending = new AbortController();
  private wake: () => void = () => {};
  taken = 0;
  left = false;

  get ended(): AbortSignal {
    return this.ending.signal;
  }

  put(frame: StreamFrame): void {
    this.frames.push(frame);
    this.wake();
  }

  end(reason: 'draining' | 'slow'): void {
    this.frames.length = 0;
    this.put({ kind: 'end', reason, after: this.taken });
    this.ending.abort();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<StreamFrame> {
    try {
      for (;;) {
        const frame = this.frames.shift();
        if (frame) {
          this.taken++;
          yield frame;
          if (frame.kind === 'end') return;
        } else await new Promise<void>((resolve) => (this.wake = resolve));
      }
    } finally {
      this.left = true;
    }
  }
}

function event(seq: number, text = ''): StreamFrame {
  const data = { step: 'model:1', attempt: 1, offset: 0, text };
  const value: Event = { seq, type: 'model.text', turnId: 't1', generation: 1, at: '', data };
  return { kind: 'event', event: value, json: JSON.stringify(value) };
}

const opened: (() => void)[] = [];
afterEach(() => opened.splice(0).forEach((close) => close()));

async function open(): Promise<{
  clock: ManualClock;
  watch: PushedWatch;
  written: Promise<void>;
  response: ServerResponse;
  client: Socket;
  text: () => string;
}> {
  const [clock, watch] = [new ManualClock(), new PushedWatch()];
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  opened.push(() => {
    client.destroy();
    server.close();
    server.closeAllConnections();
  });
  client.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
  const written = writeStream(response, watch, clock);
  let text = '';
  client.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  return { clock, watch, written, response, client, text: () => text };
}

/** Lets the sockets work, not the clock. */
async function until(clock: ManualClock, what: () => boolean): Promise<void> {
  while (!what()) await clock.advance(0);
}

it('a stream tells how soon to reconnect, then each frame, and keeps itself alive', async () => {
  const { clock, watch, text } = await open();
  watch.put(event(42));
  const delta = {
    type: 'model.delta',
    turnId: 't1',
    generation: 1,
    at: '',
    data: { step: 's', attempt: 1, offset: 0, text: 'a' },
  };
  watch.put({ kind: 'delta', delta: { ...delta, type: 'model.delta' }, json: JSON.stringify(delta) });
  await until(clock, () => text().includes('model.delta'));
  expect(text()).toMatch(/^HTTP\/1.1 200 OK\r\nContent-Type: text\/event-stream; charset=utf-8\r\n/);
  expect(text()).toMatch(/Cache-Control: no-cache, no-transform\r\nX-Accel-Buffering: no\r\n/);
  expect(text()).toContain('retry: 1000\n\n');
  expect(text()).toContain('id: 42\nevent: model.text\ndata: {"seq":42,');
  expect(text()).toContain(`event: model.delta\ndata: ${JSON.stringify(delta)}\n\n`);
  await clock.advance(KEEP_ALIVE_MS * 2);
  await until(clock, () => text().split(': keep-alive\n\n').length === 3);
});

it('a stream that ends says why and where to go on, and leaves nothing behind', async () => {
  const { clock, watch, written, client, text } = await open();
  watch.put(event(1));
  watch.end('draining');
  await written;
  await once(client, 'close').catch(() => undefined);
  expect(text()).toContain('event: stream.end\ndata: {"reason":"draining","after":0}\n\n');
  expect([watch.left, clock.pending]).toEqual([true, 0]);
});

it('a client that vanishes while a frame is written lets the watch go', async () => {
  const { clock, watch, written, response, client } = await open();
  watch.put(event(1));
  await until(clock, () => watch.taken === 1);
  client.destroy();
  await once(response, 'close');
  watch.put(event(2));
  await written;
  expect([watch.left, clock.pending]).toEqual([true, 0]);
});

it('a socket that takes nothing is not written into, and is closed hard after its limits', async () => {
  const { clock, watch, written, response, client } = await open();
  client.pause();
  for (let seq = 1; seq <= 500; seq++) watch.put(event(seq, 'x'.repeat(100_000)));
  await until(clock, () => response.writableNeedDrain);
  const taken = watch.taken;
  await clock.advance(KEEP_ALIVE_MS);
  expect(watch.taken).toBe(taken);
  expect(taken).toBeLessThan(100);
  await clock.advance(STALL_LIMIT_MS - KEEP_ALIVE_MS);
  await written;
  expect(watch.left).toBe(true);
  expect(response.destroyed).toBe(false);
  await clock.advance(FLUSH_LIMIT_MS);
  expect([response.destroyed, clock.pending]).toEqual([true, 0]);
});
