import { describe, expect, it } from '@jest/globals';
import type { Event, LiveDelta, SessionKey } from '#protocol';
import { StepPoints, UnavailableError } from '#platform';
import type { LiveFrame, SessionRow } from '#event-ledger';
import { ManualClock } from '#test-kit';
import { FOLLOW_WAIT_MS } from './session-feed.js';
import { SessionStreams } from './session-streams.js';
import { type SessionWatch, WATCH_MAX_CHARS, WATCH_MAX_FRAMES } from './session-watch.js';
import type { StreamFrame } from './stream-frame.js';

const SWEEP_MS = 5000;
const SESSION: SessionKey = { account: 'acme', sessionId: 's1' };

type Place = 'find' | 'follow' | 'read' | 'answer';

/** A ledger and a live channel whose answers wait where a test says so. */
class World {
  readonly clock = new ManualClock();
  readonly log: Event[] = [];
  readonly listeners = new Set<(frame: LiveFrame) => void>();
  /** Called at each place; what it answers is waited for. */
  at: (place: Place) => Promise<void> | void = () => {};
  lost = false;
  queries = 0;
  readonly limits: number[] = [];
  readonly streams = new SessionStreams(
    {
      findSession: async () => {
        const row = this.row();
        await this.at('find');
        return row;
      },
      events: async (_, after, limit) => {
        this.limits.push(limit);
        await this.at('read');
        const page = this.log.slice(after, after + limit);
        await this.at('answer');
        return page;
      },
      lastSeqs: (sessions) => {
        this.queries++;
        return Promise.resolve(sessions.map(() => this.log.length));
      },
    },
    {
      follow: async (_, listener) => {
        await this.at('follow');
        this.listeners.add(listener);
        return () => this.listeners.delete(listener);
      },
    },
    this.clock,
    new StepPoints(),
    { sweepIntervalMs: SWEEP_MS },
  );

  constructor(history = 0) {
    for (let each = 0; each < history; each++) this.commit();
  }

  /** Appends an event and tells the watchers, unless the notification is lost. */
  commit(text = ''): void {
    const seq = this.log.length + 1;
    const data = { step: 'model:1', attempt: 1, offset: 0, text };
    const event: Event = { seq, type: 'model.text', turnId: 't1', generation: 1, at: '', data };
    this.log.push(event);
    if (!this.lost) this.tell({ kind: 'events', events: [event], lastSeq: seq });
  }

  say(text: string): void {
    const data = { step: 'model:2', attempt: 1, offset: 0, text };
    const delta: LiveDelta = { type: 'model.delta', turnId: 't1', generation: 1, at: '', data };
    this.tell({ kind: 'delta', delta });
  }

  tell(frame: LiveFrame): void {
    for (const listener of this.listeners) listener(JSON.parse(JSON.stringify(frame)) as LiveFrame);
  }

  private row(): SessionRow {
    const times = { createdAtMs: 0, lastActivityAtMs: 0 };
    return {
      session: SESSION,
      title: null,
      metadata: null,
      digest: '',
      lastSeq: this.log.length,
      ownerEpoch: 0,
      ...times,
    };
  }
}

/** Reads a watch to its end and keeps what it gave. */
class Reader {
  readonly frames: StreamFrame[] = [];
  readonly done: Promise<void>;
  private readonly vanishing = new AbortController();

  constructor(streams: SessionStreams, after: number | null) {
    this.done = streams.open(SESSION, after, this.vanishing.signal).then((watch) => this.read(watch));
  }

  get seqs(): number[] {
    return this.frames.flatMap((frame) => (frame.kind === 'event' ? frame.event.seq : []));
  }

  get told(): (number | string)[] {
    return this.frames.map((frame) =>
      frame.kind === 'event' ? frame.event.seq : frame.kind === 'delta' ? frame.delta.data.text : frame.reason,
    );
  }

  vanish(): void {
    this.vanishing.abort();
  }

  private async read(watch: SessionWatch): Promise<void> {
    for await (const frame of watch) this.frames.push(frame);
  }
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve!: () => void;
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, at) => from + at);
const NOTHING = { sessions: 0, watches: 0, subscriptions: 0 };

/** All ways to spread three events over these moments, each told or lost. */
function spreads(): [string, number[], number][] {
  const all: [string, number[], number][] = [];
  for (let a = 0; a < 5; a++)
    for (let b = a; b < 5; b++)
      for (let c = b; c < 5; c++)
        for (let lost = 0; lost < 8; lost++)
          all.push([`${a}${b}${c} lost ${lost.toString(2).padStart(3, '0')}`, [a, b, c], lost]);
  return all;
}

describe('a watcher', () => {
  // Moments: 0 the session was found, 1 the subscription is being made, 2 before the read, 3 behind its snapshot, 4 after.
  it.each([0, 2, null])('from %s gets every event once and in order, wherever it is committed', async (after) => {
    for (const [name, moments, lost] of spreads()) {
      const world = new World(2);
      let index = 0;
      const commitAt = (moment: number): void => {
        for (; moments[index] === moment; index++) {
          world.lost = ((lost >> index) & 1) === 1;
          world.commit();
        }
      };
      world.at = (place) => commitAt(['find', 'follow', 'read', 'answer'].indexOf(place));
      const reader = new Reader(world.streams, after);
      await world.clock.advance(0);
      commitAt(4);
      await world.clock.advance(SWEEP_MS);
      expect([name, reader.seqs]).toEqual([name, range((after ?? 2) + 1, 5)]);
      reader.vanish();
      await reader.done;
      expect(world.streams.counts()).toEqual(NOTHING);
    }
  });

  it('reads a long history in pages, and what is committed meanwhile', async () => {
    const world = new World(1001);
    world.at = (place) => void (place === 'answer' && world.log.length < 1010 && world.commit());
    const reader = new Reader(world.streams, 0);
    await world.clock.advance(0);
    expect(reader.seqs).toEqual(range(1, world.log.length));
    reader.vanish();
  });

  it('reads the ledger when a frame leaves out what was too large', async () => {
    const world = new World(1);
    const reader = new Reader(world.streams, null);
    await world.clock.advance(0);
    world.lost = true;
    world.commit();
    world.commit();
    world.tell({ kind: 'events', events: [world.log[1]!], lastSeq: 3 });
    await world.clock.advance(0);
    expect(reader.seqs).toEqual([2, 3]);
    world.commit();
    world.tell({ kind: 'events', events: [], lastSeq: 4 });
    await world.clock.advance(0);
    expect(reader.seqs).toEqual([2, 3, 4]);
    reader.vanish();
  });

  it('takes few events at once while they are large, and many while they are small', async () => {
    const world = new World();
    for (let each = 0; each < 900; each++) world.commit(each < 100 ? 'x'.repeat(100_000) : '');
    const reader = new Reader(world.streams, 0);
    await world.clock.advance(0);
    expect(reader.seqs).toEqual(range(1, 900));
    expect(world.limits.slice(0, 5)).toEqual([8, 4, 8, 4, 8]);
    expect(Math.max(...world.limits)).toBe(256);
    reader.vanish();
  });

  it('reads at once what a jump in the seq shows to be missing', async () => {
    const world = new World(1);
    const reader = new Reader(world.streams, null);
    await world.clock.advance(0);
    world.lost = true;
    world.commit();
    world.lost = false;
    world.commit();
    await world.clock.advance(0);
    expect(reader.seqs).toEqual([2, 3]);
    reader.vanish();
  });

  it('is given live text between the events, but none that an event it read has overtaken', async () => {
    const world = new World(1);
    const held = deferred();
    world.at = (place) => (place === 'answer' ? held.promise : undefined);
    const reader = new Reader(world.streams, 0);
    await world.clock.advance(0);
    world.at = () => {};
    world.say('before 1, by a slow channel');
    world.tell({ kind: 'events', events: [world.log[0]!], lastSeq: 1 });
    world.say('behind 1');
    held.resolve();
    await world.clock.advance(0);
    world.say('live');
    world.commit();
    world.say('more');
    await world.clock.advance(0);
    expect(reader.told).toEqual([1, 'behind 1', 'live', 2, 'more']);
    reader.vanish();
  });

  it('is served by the sweep while no subscription can be had, and asked for one at each sweep', async () => {
    const world = new World(0);
    let asked = 0;
    world.at = (place) => {
      if (place === 'follow' && ++asked < 3) throw new UnavailableError('redis', 'away');
    };
    const reader = new Reader(world.streams, 0);
    await world.clock.advance(0);
    world.commit();
    await world.clock.advance(SWEEP_MS);
    expect([reader.seqs, asked, world.listeners.size]).toEqual([[1], 2, 0]);
    await world.clock.advance(SWEEP_MS);
    world.commit();
    await world.clock.advance(0);
    expect([reader.seqs, asked, world.listeners.size]).toEqual([[1, 2], 3, 1]);
    reader.vanish();
    await reader.done;
    expect(world.streams.counts()).toEqual(NOTHING);
  });

  it('does not wait long for a subscription, and misses nothing when it stands at last', async () => {
    const world = new World(1);
    const held = deferred();
    world.at = (place) => (place === 'follow' ? held.promise : undefined);
    const reader = new Reader(world.streams, 0);
    await world.clock.advance(FOLLOW_WAIT_MS - 1);
    expect(reader.seqs).toEqual([]);
    await world.clock.advance(1);
    expect(reader.seqs).toEqual([1]);
    world.commit();
    held.resolve();
    await world.clock.advance(0);
    expect(reader.seqs).toEqual([1, 2]);
    reader.vanish();
  });

  it('stays while the ledger is away and goes on when it is back', async () => {
    const world = new World(1);
    let away = true;
    world.at = (place) => {
      if (place === 'read' && away) throw new UnavailableError('database', 'away');
    };
    const reader = new Reader(world.streams, 0);
    await world.clock.advance(10_000);
    expect(reader.frames).toEqual([]);
    away = false;
    await world.clock.advance(1000);
    expect(reader.seqs).toEqual([1]);
    reader.vanish();
  });
});

describe('a watcher that vanishes', () => {
  it.each<Place | 'news' | 'before'>(['before', 'find', 'follow', 'read', 'answer', 'news'])(
    'at "%s" leaves nothing behind',
    async (moment) => {
      const world = new World(3);
      const held = deferred();
      world.at = (place) => (place === moment ? held.promise : undefined);
      const reader = new Reader(world.streams, 0);
      if (moment === 'before') reader.vanish();
      await world.clock.advance(0);
      reader.vanish();
      if (moment !== 'find' && moment !== 'before') {
        expect(world.streams.counts()).toMatchObject({ sessions: 0, watches: 0 });
      }
      held.resolve();
      await reader.done;
      await world.clock.advance(0);
      expect(world.streams.counts()).toEqual(NOTHING);
      expect([world.listeners.size, world.clock.pending]).toEqual([0, 0]);
      expect(reader.seqs).toEqual(moment === 'news' ? [1, 2, 3] : []);
    },
  );

  it('leaves the others of its session alone, and the last one takes the subscription along', async () => {
    const world = new World(1);
    const [first, second] = [new Reader(world.streams, 0), new Reader(world.streams, 0)];
    await world.clock.advance(0);
    expect([world.streams.counts(), world.listeners.size]).toEqual([{ sessions: 1, watches: 2, subscriptions: 1 }, 1]);
    first.vanish();
    world.commit();
    await world.clock.advance(0);
    expect([first.seqs, second.seqs]).toEqual([[1], [1, 2]]);
    second.vanish();
    await Promise.all([first.done, second.done]);
    expect([world.streams.counts(), world.listeners.size, world.clock.pending]).toEqual([NOTHING, 0, 0]);
  });

  it('a thousand times while the ledger is slow: the counts return to zero', async () => {
    const world = new World(1);
    const held = deferred();
    world.at = (place) => (place === 'find' ? held.promise : undefined);
    const readers = range(1, 1000).map(() => new Reader(world.streams, 0));
    await world.clock.advance(0);
    for (const reader of readers) reader.vanish();
    held.resolve();
    await Promise.all(readers.map((reader) => reader.done));
    await world.clock.advance(0);
    expect([world.streams.counts(), world.listeners.size, world.clock.pending]).toEqual([NOTHING, 0, 0]);
  });
});

describe('a slow watcher', () => {
  /** Opens a watch and takes its first frame, and no more. */
  async function stuck(world: World): Promise<{ watch: SessionWatch; frames: AsyncIterator<StreamFrame> }> {
    const watch = await world.streams.open(SESSION, 0, new AbortController().signal);
    const frames = watch[Symbol.asyncIterator]();
    expect(await frames.next()).toMatchObject({ value: { kind: 'event', event: { seq: 1 } } });
    return { watch, frames };
  }

  it.each([
    ['frames', 1, WATCH_MAX_FRAMES + 1],
    ['characters', WATCH_MAX_CHARS / 4, 5],
  ])('is cut off over its bound of %s, with its cursor, and the others are not', async (_, chars, count) => {
    const world = new World(1);
    const { watch, frames } = await stuck(world);
    const other = new Reader(world.streams, 0);
    await world.clock.advance(0);
    // The stuck one has its page behind it, so what comes now is kept for it.
    const next = frames.next();
    await world.clock.advance(0);
    world.commit();
    await next;
    for (let each = 0; each < count; each++) {
      world.commit('x'.repeat(chars));
      await world.clock.advance(0);
    }
    expect(watch.ended.aborted).toBe(true);
    expect(await frames.next()).toEqual({ done: false, value: { kind: 'end', reason: 'slow', after: 2 } });
    expect(await frames.next()).toMatchObject({ done: true });
    expect(other.seqs).toEqual(range(1, count + 2));
    other.vanish();
    await other.done;
    expect(world.streams.counts()).toEqual(NOTHING);
  });

  it('goes on from the cursor it was given without a gap', async () => {
    const world = new World(1);
    const { frames } = await stuck(world);
    const next = frames.next();
    world.commit();
    await next;
    for (let each = 0; each <= WATCH_MAX_FRAMES; each++) world.commit();
    const { value } = (await frames.next()) as { value: StreamFrame };
    const again = new Reader(world.streams, value.kind === 'end' ? value.after : null);
    await world.clock.advance(0);
    expect(again.seqs).toEqual(range(3, world.log.length));
    again.vanish();
  });
});

describe('streams', () => {
  it('end with the hint and the cursor when the pod drains, and no new ones are taken', async () => {
    const world = new World(2);
    const reader = new Reader(world.streams, 0);
    await world.clock.advance(0);
    world.streams.drain();
    await reader.done;
    expect(reader.frames.at(-1)).toEqual({ kind: 'end', reason: 'draining', after: 2 });
    expect(world.streams.counts()).toEqual(NOTHING);
    await expect(new Reader(world.streams, 0).done).rejects.toMatchObject({ code: 'draining' });
  });

  it('are refused past the last event', async () => {
    const refused = { code: 'validation_failed', facts: { lastSeq: 2, errors: [{ path: 'after' }] } };
    await expect(new Reader(new World(2).streams, 3).done).rejects.toMatchObject(refused);
  });

  it('cost one query per sweep, however many, and nothing when nobody watches', async () => {
    const world = new World(1);
    const readers = range(1, 20).map(() => new Reader(world.streams, 0));
    await world.clock.advance(SWEEP_MS * 3);
    expect(world.queries).toBe(3);
    for (const reader of readers) reader.vanish();
    await world.clock.advance(SWEEP_MS * 3);
    expect([world.queries, world.clock.pending]).toEqual([3, 0]);
  });
});
