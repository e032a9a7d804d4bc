import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Event } from '#protocol';
import {
  answers,
  ManualClock,
  refuses,
  type ScriptedAnswer,
  ScriptedFetch,
  ScriptedStream,
  silent,
  unreachable,
} from '#test-kit';
import { ButlerClient } from './butler-client.js';
import { NetworkError } from './network.error.js';
import type { Frame, WatchOptions, WatchState } from './watch.js';

const HEARTBEAT = ': keep-alive\n\n';

let clock: ManualClock;
let net: ScriptedFetch;
let leaving: AbortController;

beforeEach(() => {
  clock = new ManualClock();
  net = new ScriptedFetch();
  leaving = new AbortController();
});

afterEach(async () => {
  leaving.abort();
  await clock.advance(0);
  expect(clock.pending).toBe(0);
});

function event(seq: number, type = 'turn.started', turnId = 't1', generation = 1): Event {
  return { seq, type, turnId, generation, at: '2030-01-01T00:00:00.000Z', data: {} } as unknown as Event;
}
const sse = (...seqs: number[]): string =>
  seqs.map((seq) => `id: ${seq}\nevent: turn.started\ndata: ${JSON.stringify(event(seq))}\n\n`).join('');
const end = (reason: string): string => `event: stream.end\ndata: {"reason":"${reason}","after":0}\n\n`;
const page = (...seqs: number[]): ScriptedAnswer =>
  answers(200, { events: seqs.map((seq) => event(seq)), nextAfter: 0, hasMore: false });

/** A watch that is read all the time. Jitter is always the least. */
class Seen {
  readonly frames: Frame[] = [];
  readonly states: WatchState[] = [];
  /** What it ended with; null: without an error. */
  ended: unknown;

  static async of(options: WatchOptions = {}): Promise<Seen> {
    const seen = new Seen();
    void seen.read(options);
    await clock.advance(0);
    return seen;
  }

  get seqs(): number[] {
    return this.frames.map((frame) => ('seq' in frame ? frame.seq : -1));
  }

  get waits(): number[] {
    return this.states.flatMap((each) => (each.state === 'waiting' ? [each.retryAtMs - clock.now()] : []));
  }

  private async read(options: WatchOptions): Promise<void> {
    const client = new ButlerClient({
      ...{ baseUrl: 'http://pod', fetch: net.fetch, clock },
      randomness: { id: () => 'id', fraction: () => 0 },
    });
    const { signal } = leaving;
    try {
      const onState = (state: WatchState): void => void this.states.push(state);
      for await (const frame of client.watch('s1', { signal, onState, ...options })) this.frames.push(frame);
      this.ended = null;
    } catch (error) {
      this.ended = error;
    }
  }
}

/** The paths of the requests so far. */
const asked = (): string[] => net.sent.map(({ url }) => url.slice('http://pod/v1/sessions/s1'.length));

function streams(count: number): ScriptedStream[] {
  return Array.from({ length: count }, () => new ScriptedStream());
}

describe('from where', () => {
  test('from a cursor: every event behind it', async () => {
    const [stream] = streams(1) as [ScriptedStream];
    net.willAnswer(stream.answer);
    const seen = await Seen.of({ after: 3 });
    stream.write(sse(4, 5));
    await clock.advance(0);
    expect([seen.seqs, asked(), seen.states]).toEqual([
      [4, 5],
      ['/stream?after=3'],
      [{ state: 'connecting' }, { state: 'live' }],
    ]);
    expect(net.sent[0]!.headers.accept).toBe('text/event-stream');
  });

  test('from now: what happens while the first connections fail is not missed', async () => {
    const [broken, stream] = streams(2) as [ScriptedStream, ScriptedStream];
    net.willAnswer(unreachable, answers(200, { lastSeq: 8 }), broken.answer, stream.answer);
    const seen = await Seen.of();
    await clock.advance(1000);
    broken.break();
    stream.write(sse(9));
    await clock.advance(2000);
    expect(asked()).toEqual(['', '', '/stream?after=8', '/stream?after=8']);
    expect(seen.seqs).toEqual([9]);
  });
});

describe('each event once and in order', () => {
  test('a connection that breaks is followed by another one from the cursor', async () => {
    const [first, second] = streams(2) as [ScriptedStream, ScriptedStream];
    net.willAnswer(first.answer, second.answer);
    const seen = await Seen.of({ after: 0 });
    first.write(sse(1, 2), 'id: 3\nevent: turn.st');
    await clock.advance(0);
    first.break();
    await clock.advance(999);
    expect(asked()).toHaveLength(1);
    second.write(sse(3, 4));
    await clock.advance(1);
    expect(asked()).toEqual(['/stream?after=0', '/stream?after=2']);
    expect(seen.seqs).toEqual([1, 2, 3, 4]);
    expect(seen.states.map(({ state }) => state)).toEqual(['connecting', 'live', 'waiting', 'connecting', 'live']);
  });

  test('what comes twice is given once', async () => {
    const [stream] = streams(1) as [ScriptedStream];
    net.willAnswer(stream.answer);
    const seen = await Seen.of({ after: 2 });
    stream.write(sse(1, 2, 3, 3, 2, 4, 3, 4, 5));
    await clock.advance(0);
    expect(seen.seqs).toEqual([3, 4, 5]);
  });

  test('a gap is filled from the ledger before what follows it, over as many pages as it takes', async () => {
    const [stream] = streams(1) as [ScriptedStream];
    net.willAnswer(stream.answer, page(2, 3), page(4, 5, 6));
    const seen = await Seen.of({ after: 0 });
    stream.write(sse(1, 6, 7));
    await clock.advance(0);
    expect(seen.seqs).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(asked().slice(1)).toEqual(['/events?after=1&limit=1000', '/events?after=3&limit=1000']);
  });

  test('a gap that cannot be filled is not stepped over: it connects again from the cursor', async () => {
    const [first, second, third] = streams(3) as [ScriptedStream, ScriptedStream, ScriptedStream];
    net.willAnswer(first.answer, page(), second.answer, unreachable, third.answer);
    const seen = await Seen.of({ after: 0 });
    first.write(sse(1, 3));
    second.write(sse(3));
    third.write(sse(2, 3));
    await clock.advance(5000);
    expect(seen.seqs).toEqual([1, 2, 3]);
    expect(asked().filter((path) => path.startsWith('/stream'))).toEqual([
      '/stream?after=0',
      '/stream?after=1',
      '/stream?after=1',
    ]);
  });

  test('live text comes in between where it adjoins, and has no seq', async () => {
    const [stream] = streams(1) as [ScriptedStream];
    net.willAnswer(stream.answer);
    const seen = await Seen.of({ after: 0 });
    const delta = (offset: number): string =>
      `event: model.delta\ndata: ${JSON.stringify({ type: 'model.delta', turnId: 't1', generation: 1, data: { step: 'model:1', attempt: 1, offset, text: 'ab' } })}\n\n`;
    stream.write(sse(1), delta(0), delta(2), delta(6), sse(2));
    await clock.advance(0);
    expect(seen.seqs).toEqual([1, -1, -1, 2]);
  });
});

describe('when a stream ends', () => {
  test.each(['draining', 'slow', 'expired'])('%s: it connects again at once, from its cursor', async (reason) => {
    const [first, second] = streams(2) as [ScriptedStream, ScriptedStream];
    net.willAnswer(first.answer, second.answer);
    const seen = await Seen.of({ after: 0 });
    first.write(sse(1), end(reason)).close();
    second.write(sse(2));
    await clock.advance(0);
    expect([seen.seqs, asked(), seen.waits]).toEqual([[1, 2], ['/stream?after=0', '/stream?after=1'], []]);
  });

  test('streams that end as soon as they begin are waited for, longer each time', async () => {
    const all = streams(4);
    net.willAnswer(...all.map(({ answer }) => answer));
    for (const stream of all.slice(0, 3)) stream.write('retry: 500\n\n', end('draining')).close();
    await Seen.of({ after: 0 });
    expect(net.sent).toHaveLength(2);
    await clock.advance(999);
    expect(net.sent).toHaveLength(2);
    await clock.advance(1);
    expect(net.sent).toHaveLength(3);
    await clock.advance(2000);
    expect(net.sent).toHaveLength(4);
  });

  test('`retry:` says how long it waits after a loss', async () => {
    const [stream] = streams(1) as [ScriptedStream];
    net.willAnswer(stream.answer, silent);
    const seen = await Seen.of({ after: 0 });
    stream.write('retry: 4000\n\n', sse(1)).close();
    await clock.advance(0);
    expect(seen.waits).toEqual([4000]);
    expect(seen.states.at(-1)).toMatchObject({ state: 'waiting', error: expect.any(NetworkError) });
  });
});

describe('when nothing comes', () => {
  test('a stream without a byte for 45 s is given up; heartbeats keep it', async () => {
    const [first, second] = streams(2) as [ScriptedStream, ScriptedStream];
    net.willAnswer(first.answer, second.answer);
    const seen = await Seen.of({ after: 0 });
    for (let beat = 0; beat < 5; beat++) {
      await clock.advance(44_999);
      first.write(HEARTBEAT);
      await clock.advance(0);
    }
    await clock.advance(44_999);
    expect(seen.states.at(-1)).toEqual({ state: 'live' });
    await clock.advance(1);
    expect(seen.states.at(-1)).toMatchObject({ state: 'waiting', error: expect.any(NetworkError) });
    expect(net.sent[0]!.signal.aborted).toBe(true);
    second.write(sse(1));
    await clock.advance(1000);
    expect(seen.seqs).toEqual([1]);
  });

  test('a stream that is not opened in 45 s is given up', async () => {
    net.willAnswer(silent, silent);
    const seen = await Seen.of({ after: 0 });
    await clock.advance(46_000);
    expect([net.sent.length, seen.states.map(({ state }) => state)]).toEqual([
      2,
      ['connecting', 'waiting', 'connecting'],
    ]);
  });

  test('a reader that takes its time is not taken for a silent server', async () => {
    const [stream] = streams(1) as [ScriptedStream];
    net.willAnswer(stream.answer);
    const client = new ButlerClient({ baseUrl: 'http://pod', fetch: net.fetch, clock });
    stream.write(sse(1), sse(2));
    const watch = client.watch('s1', { after: 0 });
    expect((await watch.next()).value).toMatchObject({ seq: 1 });
    await clock.advance(3_600_000);
    expect((await watch.next()).value).toMatchObject({ seq: 2 });
    expect(net.sent).toHaveLength(1);
    await watch.return();
    expect(net.sent[0]!.signal.aborted).toBe(true);
  });
});

describe('when it cannot connect', () => {
  test('it tries again for good, with a wait that doubles up to a limit', async () => {
    net.willAnswer(...Array.from({ length: 9 }, () => unreachable));
    const seen = await Seen.of({ after: 0 });
    const waits = [];
    for (let attempt = 0; attempt < 7; attempt++) {
      const { retryAtMs } = seen.states.at(-1) as { retryAtMs: number };
      waits.push(retryAtMs - clock.now());
      await clock.advance(retryAtMs - clock.now());
    }
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  });

  test('what a server says of its own accord is waited for: Retry-After, and other faults of its own', async () => {
    const [stream] = streams(1) as [ScriptedStream];
    const html = () => new Response('<html>', { headers: { 'content-type': 'text/html' } });
    net.willAnswer(
      refuses(503, 'draining', { 'retry-after': '7' }),
      refuses(500, 'internal_error'),
      html,
      stream.answer,
    );
    const seen = await Seen.of({ after: 0 });
    expect(seen.waits).toEqual([7000]);
    await clock.advance(7000 + 2000 + 4000);
    expect(seen.states.at(-1)).toEqual({ state: 'live' });
  });

  test.each([
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'not_found'],
    [400, 'validation_failed'],
  ])('%i ends it with the typed error, also when it has been live', async (status, code) => {
    const [stream] = streams(1) as [ScriptedStream];
    net.willAnswer(stream.answer, refuses(status, code));
    const seen = await Seen.of({ after: 0 });
    stream.write(sse(1), end('expired')).close();
    await clock.advance(60_000);
    expect(seen.ended).toMatchObject({ name: 'ApiError', status, code });
    expect(net.sent).toHaveLength(2);
  });
});

describe('when the signal aborts', () => {
  test.each<[string, ScriptedAnswer]>([
    ['while it connects', silent],
    ['while it is live', new ScriptedStream().answer],
    ['while it waits', unreachable],
  ])('%s: it ends without an error, and nothing is left', async (_, answer) => {
    net.willAnswer(answer);
    const seen = await Seen.of({ after: 0 });
    const before = seen.states.length;
    leaving.abort();
    await clock.advance(0);
    expect([seen.ended, clock.pending, seen.states.length]).toEqual([null, 0, before]);
  });

  test('before it begins: nothing is sent', async () => {
    leaving.abort();
    expect((await Seen.of({ after: 0 })).ended).toBe(null);
    expect(net.sent).toEqual([]);
  });
});

describe('waiting for a turn', () => {
  const waitFor = (generation?: number, signal?: AbortSignal): Promise<Event> =>
    new ButlerClient({ baseUrl: 'http://pod', fetch: net.fetch, clock }).waitForTurn('s1', 't1', {
      generation,
      signal,
    });
  const line = (each: Event): string => `id: ${each.seq}\nevent: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`;

  test('it is over with the event that ends this turn in its present generation', async () => {
    const [stream] = streams(1) as [ScriptedStream];
    net.willAnswer(answers(200, { turnId: 't1', generation: 2, queueSeq: 5 }), stream.answer);
    stream.write(
      line(event(6, 'turn.completed', 't0', 2)),
      line(event(7, 'turn.stopped', 't1', 1)),
      line(event(8, 'turn.failed', 't1', 2)),
    );
    expect(await waitFor()).toMatchObject({ seq: 8, type: 'turn.failed' });
    expect(asked()).toEqual(['/turns/t1', '/stream?after=5']);
    expect(net.sent[1]!.signal.aborted).toBe(true);
  });

  test('an earlier generation, and a turn without a place in the order, are looked for from the beginning', async () => {
    for (const [turn, generation] of [
      [{ generation: 2, queueSeq: 5 }, 1],
      [{ generation: 1, queueSeq: null }, undefined],
    ] as const) {
      const [stream] = streams(1) as [ScriptedStream];
      net.willAnswer(answers(200, turn), stream.answer);
      stream.write(line(event(1, 'turn.stopped')));
      expect(await waitFor(generation)).toMatchObject({ seq: 1 });
      expect(asked().at(-1)).toBe('/stream?after=0');
    }
  });

  test('a signal ends it with its reason', async () => {
    const reason = new Error('enough');
    net.willAnswer(answers(200, { generation: 1, queueSeq: 1 }), new ScriptedStream().answer);
    const waiting = waitFor(1, leaving.signal);
    const outcome = waiting.catch((error: unknown) => error);
    await clock.advance(0);
    leaving.abort(reason);
    expect(await outcome).toBe(reason);
  });
});
