import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ButlerError } from '#protocol';
import { Diary, FamilyStage, PlannedAgent } from './ground/family-stage.js';
import { Ground, GROUNDS } from './ground/ground.js';
import type { Hold, Passage } from './ground/points.js';
import type { PodOptions, TracePod } from './ground/trace-pod.js';

/** Where its message can be when a stop comes before the turn has started, by the pod that stands there. */
const BEFORE_ITS_START: ['poster' | 'owner', string][] = [
  ...['database.together answers', 'intake.committed', 'queue.enqueue', 'queue.enqueue answers'].map(
    (place): ['poster', string] => ['poster', place],
  ),
  ...['actor.acquiring', 'locks.acquire', 'locks.acquire answers', 'actor.taking', 'queue.take'].map(
    (place): ['owner', string] => ['owner', place],
  ),
  ...['queue.take answers', 'actor.taken', 'gate3.before', 'database.together'].map((place): ['owner', string] => [
    'owner',
    place,
  ]),
];

const ACTS = { acts: ['a', 'b'] };

/**
 * A stop at each place of a turn's way, from before its message is accepted to behind its end. Three pods: one posts, one
 * owns, and the stop comes in at a third one.
 */
describe.each(GROUNDS)('on the %s servers', (kind) => {
  const diary = new Diary();
  let ground: Ground;
  let stage: FamilyStage;
  let poster: TracePod;
  let owner: TracePod;
  let door: TracePod;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    ground = await Ground.open(kind, (points) => new PlannedAgent(points, diary));
  });
  afterEach(() => ground.clear());
  afterAll(() => ground.close());

  async function begin(options: PodOptions = {}): Promise<void> {
    await ground.clear();
    door = await ground.pod('door', { actors: false });
    poster = await ground.pod('poster', { actors: false });
    stage = new FamilyStage(ground, diary, door);
    owner = await ground.pod('owner', options);
  }

  /** It ended as stopped, once; its lists are empty; the session goes on. */
  async function isStopped(): Promise<void> {
    await stage.finish([stage.root], owner);
    expect((await stage.row())?.state).toBe('stopped');
    await stage.keepsPromises();
    await stage.servesNext(owner);
  }

  describe('a stop before the start', () => {
    it('that comes before the message is committed is what the message meets', async () => {
      await begin();
      const held = poster.points.hold('database.together');
      const posting = stage.post(ACTS, undefined, poster).catch((error: unknown) => error);
      await held.reached;
      expect(await stage.stop()).toMatchObject({ state: 'stopped', generation: 1, already: false });
      held.release();
      const refused = await posting;
      expect(refused).toBeInstanceOf(ButlerError);
      expect(refused).toMatchObject({ code: 'turn_stopped' });
      expect((await stage.events()).map(({ type }) => type)).toEqual(['turn.stopped', 'message.refused']);
      expect(diary.of(stage.rootTurn)).toEqual([]);
      await isStopped();
    });

    it.each(BEFORE_ITS_START)('keeps every model call from beginning: the %s is at %s', async (who, place) => {
      await begin();
      const held = (who === 'poster' ? poster : owner).points.hold(place);
      const posting = stage.post(ACTS, undefined, poster);
      await held.reached;
      await ground.quiet();
      expect(await stage.stop()).toMatchObject({ state: 'stopped', already: false });
      await ground.quiet();
      held.release();
      await posting;
      await ground.quiet();
      await isStopped();
      expect(diary.of(stage.rootTurn)).toEqual([]);
      expect((await stage.lives()).slice(0, 1)).toEqual([`turn.stopped ${stage.rootTurn}`]);
    });
  });

  /** A place's name in any session. */
  const plain = (name: string): string => name.replace(` ${stage.root.sessionId} `, ' ');

  /** The places that the owner passes from its start's commit to the turn's end: each with the how manieth of its name. */
  async function placesOfRun(): Promise<[string, number][]> {
    await begin();
    await stage.post(ACTS, undefined, poster);
    await stage.finish([stage.root], owner);
    const { passed } = owner.points;
    const run = passed
      .map(plain)
      .slice(passed.indexOf('database.together') + 1, passed.indexOf('finish.committed') + 1);
    const counts = new Map<string, number>();
    const places = run.map((name): [string, number] => {
      counts.set(name, (counts.get(name) ?? 0) + 1);
      return [name, counts.get(name)!];
    });
    // A check holds together with what follows it, in one turn of the event loop.
    return places.filter(([name]) => !name.endsWith('.checked') && name !== 'hears');
  }

  /** Runs a turn up to a place of its run, holds it there and stops it; whether the turn had ended. */
  async function stopAt(
    [place, nth]: [string, number],
    options: PodOptions,
  ): Promise<{ release(): void; hasEnded: boolean }> {
    await begin(options);
    let times = 0;
    let isRunning = false;
    const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    owner.points.meet = ({ name }: Passage) => {
      if (isRunning && plain(name) === place && ++times === nth) {
        reach();
        return released;
      }
      isRunning ||= name === 'database.together';
      return undefined;
    };
    await stage.post(ACTS, undefined, poster);
    if (options.notified === false) await ground.sweep(owner);
    await reached;
    await ground.quiet();
    const { already } = await stage.stop();
    await ground.quiet();
    return { release, hasEnded: already };
  }

  describe('a stop of a running turn', () => {
    it('that is heard lets no step begin, wherever it comes, and ends the turn as stopped', async () => {
      const places = await placesOfRun();
      for (const place of places) {
        const { release, hasEnded } = await stopAt(place, {});
        const before = diary.of(stage.rootTurn);
        release();
        await stage.finish([stage.root], owner);
        expect({ place, state: (await stage.row())?.state }).toEqual({
          place,
          state: hasEnded ? 'completed' : 'stopped',
        });
        expect({ place, begun: diary.of(stage.rootTurn) }).toEqual({ place, begun: before });
        await stage.keepsPromises();
        await stage.servesNext(owner);
      }
      process.stdout.write(`${kind}: stopped at each of ${places.length} places of a run\n`);
      expect(places.length).toBeGreaterThan(20);
    });

    it('whose notice is lost is found by the next append: nothing begins behind it', async () => {
      const places = await placesOfRun();
      for (const place of places) {
        const { release, hasEnded } = await stopAt(place, { notified: false });
        // What is under way may come to its end, and what has been begun may be recorded.
        let begunBefore: number | null = null;
        owner.points.meet = ({ name }) => {
          if (name === 'database.together answers') begunBefore ??= diary.of(stage.rootTurn).length;
          return undefined;
        };
        release();
        await ground.quiet();
        expect({ place, state: (await stage.row())?.state }).toEqual({
          place,
          state: hasEnded ? 'completed' : 'stopped',
        });
        if (!hasEnded) expect({ place, begun: diary.of(stage.rootTurn).length }).toEqual({ place, begun: begunBefore });
        await stage.finish([stage.root], owner);
        await stage.keepsPromises();
        await stage.servesNext(owner);
      }
    });

    it.each([
      ['the next append', async () => owner.clock.advance(250)],
      ['the next sweep', async () => ground.sweep(owner)],
    ])('whose notice is lost aborts the call under way by %s', async (_, look) => {
      await begin({ notified: false });
      const held = owner.points.hold(`step ${stage.root.sessionId} model:1`);
      await stage.post(ACTS);
      await ground.sweep(owner);
      await held.reached;
      await stage.stop();
      await ground.quiet();
      expect((await stage.row())?.state).toBe('stop_requested');
      await look();
      await ground.quiet();
      expect((await stage.row())?.state).toBe('stopped');
      const [said] = (await stage.events()).filter(({ type }) => type === 'model.message');
      expect(said?.data).toMatchObject({ text: 'let me see', toolCalls: [], finish: 'interrupted' });
      held.release();
      await isStopped();
      expect(diary.of(stage.rootTurn)).toEqual(['model:1']);
    });
  });

  describe('a notice that comes late', () => {
    /** A stop whose notice hangs; the turn hears of it by its next append. Answers what lets the notice through. */
    async function stopWithLateNotice(): Promise<Hold> {
      await begin();
      const acting = owner.points.hold(`step ${stage.root.sessionId} model:1`);
      await stage.post(ACTS);
      await acting.reached;
      await ground.quiet();
      const notice = owner.points.hold('hears');
      await stage.stop();
      await notice.reached;
      acting.release();
      await ground.quiet();
      expect((await stage.row())?.state).toBe('stopped');
      return notice;
    }

    it('when the next turn has started leaves that one alone', async () => {
      const notice = await stopWithLateNotice();
      const next = `${stage.root.sessionId}-2`;
      const acting = owner.points.hold(`step ${stage.root.sessionId} model:1`);
      await stage.post(ACTS, next);
      await acting.reached;
      notice.release();
      await ground.quiet();
      acting.release();
      await stage.finish([stage.root], owner);
      expect((await stage.row(next))?.state).toBe('completed');
      expect(diary.of(next)).toEqual(['model:1', 'tool:a', 'tool:b', 'model:2']);
      await stage.keepsPromises();
    });

    it('when the next generation has started leaves that one alone', async () => {
      const notice = await stopWithLateNotice();
      const acting = owner.points.hold(`step ${stage.root.sessionId} model:1`);
      await stage.retry();
      await acting.reached;
      notice.release();
      await ground.quiet();
      acting.release();
      await stage.finish([stage.root], owner);
      expect(await stage.row()).toMatchObject({ state: 'completed', generation: 2 });
      expect(diary.of(stage.rootTurn)).toEqual(['model:1', 'model:1', 'tool:a', 'tool:b', 'model:2']);
      await stage.keepsPromises();
    });
  });
});
