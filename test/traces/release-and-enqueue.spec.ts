import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { SessionKey } from '#protocol';
import { Ground, GROUNDS } from './ground/ground.js';
import { interleavings } from './ground/interleavings.js';
import type { Hold } from './ground/points.js';
import type { TracePod } from './ground/trace-pod.js';
import { CLASSES, OffsetRace, type Poster, POSTERS } from './ground/offset-race.js';
import { shortAgent, Watch, watchedAgent } from './ground/watch.js';

/** The actor's way out, and the message's way in; each step may come at any time after the one before it. */
const LEAVING = ['release', 'release answered'];
const ARRIVING = ['enqueue', 'enqueue answered'];
/** Said to the owner by the enqueue: heard at any time after it. */
const NOTICE = ['enqueue', 'notice heard'];

/** How many offsets are tried, in so many sessions side by side, and how often each order of events must come about. */
const OFFSETS = 5_000;
const SESSIONS = 100;
const HITS_MIN = 100;

const PLACES: Record<string, string> = {
  release: 'locks.release',
  'release answered': 'locks.release answers',
  enqueue: 'queue.enqueue',
  'enqueue answered': 'queue.enqueue answers',
  'notice heard': 'hears',
};

describe.each(GROUNDS)('a message that arrives exactly as its idle actor leaves, on the %s servers', (kind) => {
  let ground: Ground;
  let session: SessionKey;
  let watch: Watch;
  let owner: TracePod;
  let poster: TracePod;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    ground = await Ground.open(kind, watchedAgent);
  });
  afterEach(() => ground.clear());
  afterAll(() => ground.close());

  describe.each(POSTERS)('posted at %s', (posted) => {
    it.each(interleavings(LEAVING, ARRIVING, NOTICE).map((order) => [order.join(', ')]))(
      'is served without a sweep: %s',
      async (order) => {
        await stage(posted, true);
        await interleave(order.split(', '));
        expect(await watch.turnsOf('turn.completed')).toEqual(['first', 'second'].map(named));
        expect(await watch.isDone()).toBe(true);
      },
    );

    it.each(interleavings(LEAVING, ARRIVING).map((order) => [order.join(', ')]))(
      'is served by the next sweep at the latest when no notice is heard: %s',
      async (order) => {
        await stage(posted, false);
        await interleave(order.split(', '));
        if (!(await watch.isDone())) await ground.sweep(owner, poster);
        expect(await watch.turnsOf('turn.completed')).toEqual(['first', 'second'].map(named));
        expect(await watch.isDone()).toBe(true);
      },
    );
  });

  const named = (turnId: string): string => `${session.sessionId}-${turnId}`;

  /** A pod whose actor has served a message and sleeps, and the pod at which the next one is posted. */
  async function stage(posted: Poster, notified: boolean): Promise<void> {
    session = ground.session();
    watch = new Watch(ground, session);
    owner = await ground.pod('a', { notified });
    poster = owner;
    if (posted !== 'the same pod') poster = await ground.pod('b', { notified, actors: posted === 'another pod' });
    await owner.post(session, named('first'));
    await ground.quiet();
    expect(owner.supervisor.counts()).toEqual({ active: 0, idle: 1 });
  }

  /** Takes every step in this order, each one's consequences coming to rest before the next. */
  async function interleave(order: readonly string[]): Promise<void> {
    const holds = new Map<string, Hold>();
    for (const step of order) {
      const pod = step.startsWith('enqueue') ? poster : owner;
      holds.set(step, pod.points.hold(PLACES[step]!));
    }
    owner.stall(owner.settings.actorIdleMs);
    await ground.sweep(owner);
    const answer = poster.post(session, named('second'));
    await ground.quiet();
    for (const step of order) {
      holds.get(step)!.release();
      await ground.quiet();
    }
    await answer;
    await ground.quiet();
  }
});

describe.each(GROUNDS)('messages and leaving actors at random offsets, on the %s servers', (kind) => {
  let ground: Ground;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    ground = await Ground.open(kind, shortAgent);
  });
  afterAll(() => ground.close());

  it(`no message waits longer than one sweep in ${OFFSETS} tries without notifications`, async () => {
    const race = await OffsetRace.open(ground, SESSIONS);
    while (race.tries < OFFSETS) await race.round();
    process.stdout.write(race.table(kind));
    for (const order of CLASSES) expect(race.hits(order)).toBeGreaterThanOrEqual(HITS_MIN);
    expect(race.late).toBe(0);
    await race.checkLedger();
  }, 120_000);
});
