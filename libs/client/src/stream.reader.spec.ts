import { expect, test } from '@jest/globals';
import { ManualClock } from '#test-kit';
import { NetworkError } from './network.error.js';
import { readFrames, type StreamFrame } from './stream.reader.js';

const event = { seq: 7, type: 'model.message', data: { text: 'fine 👍🏽 – ünïcödé\r\n' } };
const delta = { type: 'model.delta', data: { text: '👍' } };
const TEXT =
  'retry: 1500\n\n' +
  `id: 7\nevent: model.message\ndata: ${JSON.stringify(event)}\n\n` +
  ': keep-alive\n\n' +
  `event: model.delta\ndata: ${JSON.stringify(delta)}\n\n` +
  'event: stream.hint\ndata: of a newer server\n\n' +
  'event: stream.end\ndata: {"reason":"slow","after":7}\n\n';
const FRAMES: StreamFrame[] = [
  { kind: 'retry', ms: 1500 },
  { kind: 'event', event: event as never },
  { kind: 'heartbeat' },
  { kind: 'delta', delta: delta as never },
  { kind: 'end', reason: 'slow' },
];

async function framesOf(...pieces: Uint8Array[]): Promise<StreamFrame[]> {
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  const frames: StreamFrame[] = [];
  for await (const frame of readFrames(body, new ManualClock())) frames.push(frame);
  return frames;
}

test('frames are the same wherever the bytes are cut, also within a character', async () => {
  const bytes = new TextEncoder().encode(TEXT);
  for (let cut = 0; cut <= bytes.length; cut++) {
    expect(await framesOf(bytes.subarray(0, cut), bytes.subarray(cut))).toEqual(FRAMES);
  }
  expect(await framesOf(...Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual(FRAMES);
});

test('lines may end as the specification allows', async () => {
  const bytes = new TextEncoder().encode(TEXT.replaceAll('\n', '\r\n'));
  expect(await framesOf(...Array.from(bytes, (byte) => Uint8Array.of(byte)))).toEqual(FRAMES);
});

test('a frame that broke off in the middle is not given', async () => {
  const bytes = new TextEncoder().encode(`id: 7\ndata: ${JSON.stringify(event)}\n`);
  expect(await framesOf(bytes)).toEqual([]);
});

test.each([
  ['no JSON', 'id: 8\ndata: {"seq"\n\n'],
  ['too large', `data: ${'x'.repeat(17 * 1024 * 1024)}`],
])('a frame that is %s breaks the stream', async (_, text) => {
  await expect(framesOf(new TextEncoder().encode(text))).rejects.toThrow(NetworkError);
});
