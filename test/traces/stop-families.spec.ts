import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { SessionKey } from '#protocol';
import { reportTurnId } from '#family';
import { Diary, FamilyStage, type Plan, PlannedAgent } from './ground/family-stage.js';
import { Ground, GROUNDS } from './ground/ground.js';
import type { Passage } from './ground/points.js';
import type { TracePod } from './ground/trace-pod.js';

/** How many passages of a run the next one may lack: who looks first is not the same each time. */
const MISSED_MAX = 6;

/**
 * Turns and their kin, stopped, retried and left by their pods. One pod serves the root alone, another one its children;
 * calls come in at a third.
 */
describe.each(GROUNDS)('on the %s servers', (kind) => {
  const diary = new Diary();
  let ground: Ground;
  let stage: FamilyStage;
  let door: TracePod;
  let rootPod: TracePod;
  let kinPod: TracePod;
  let root: SessionKey;
  let child: SessionKey;
  let grandchild: SessionKey;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    ground = await Ground.open(kind, (points) => new PlannedAgent(points, diary));
  });
  beforeEach(() => begin());
  afterEach(() => ground.clear());
  afterAll(() => ground.close());

  async function begin(): Promise<void> {
    await ground.clear();
    door = await ground.pod('door', { actors: false });
    rootPod = await ground.pod('root', { settings: { actorMaxActive: 1 } });
    kinPod = await ground.pod('kin');
    // Their first sweeps are over before anything waits that they could take.
    await ground.quiet();
    stage = new FamilyStage(ground, diary, door);
    root = stage.root;
    rootPod.points.meet = keepOut;
    child = stage.session('c');
    grandchild = stage.session('c.g');
  }

  /** While the root waits there is room beside it, but no other session gets in. */
  const keepOut = ({ name, sessionId }: Passage): Promise<void> | undefined =>
    name === 'actor.acquiring' && sessionId !== root.sessionId ? Promise.reject(new Error('not here')) : undefined;

  const family = (): SessionKey[] => [root, child, grandchild];
  const start = (plan: Plan): Promise<void> => stage.post(plan, undefined, rootPod);
  /** A parent with one child. */
  const pair = ({ awaits = true, ofChild = {} }: { awaits?: boolean; ofChild?: Plan } = {}): Plan => {
    return { spawns: { [child.sessionId]: ofChild }, awaits };
  };
  /** Three, one below the other, each waiting for the next. */
  const three = (): Plan => pair({ ofChild: { spawns: { [grandchild.sessionId]: {} }, awaits: true } });

  /** The reports in the last model input of a turn. */
  function reportsTo(turnId: string): string[] {
    const said = diary.lastInput(turnId).filter(({ role }) => role === 'user');
    return said.map(({ content }) => content).filter((content) => content.startsWith('Sub-agent '));
  }

  /** What the child's report says. */
  async function report(state: string, words = ''): Promise<string> {
    const { turnId } = (await stage.firstOf(child))!;
    return `Sub-agent ${child.sessionId}/${turnId} ${state}.${words && `\n${words}`}`;
  }

  /** A child at work while its parent waits for it, or has ended without. Answers what lets the child go on. */
  async function childAtWork(plan = pair()): Promise<{ turnId: string; release(): void }> {
    const acting = kinPod.points.hold(`step ${child.sessionId} model:1`);
    await start(plan);
    await acting.reached;
    await ground.quiet();
    // The root's pod, full when it heard of the child, believes until its next look that others wait for its room.
    if (!plan.awaits) await ground.sweep(rootPod);
    return { turnId: (await stage.firstOf(child))!.turnId, release: () => acting.release() };
  }

  /** All has ended, every promise has held, and the root's session goes on. */
  async function isOver(...pods: TracePod[]): Promise<void> {
    await stage.finish(family(), ...(pods.length > 0 ? pods : [rootPod, kinPod]));
    for (const session of family()) await stage.keepsPromises(session);
    await stage.servesNext(pods[0] ?? rootPod);
  }

  describe('a stop that races the admission of children', () => {
    /** A passage in any family. */
    const plain = (pod: TracePod, name: string): string => `${pod.name} ${name.replace(root.sessionId, 's')}`;

    /** Looks at every passage from the root's spawning to the grandchild's first step, with the how manieth of its name. */
    function watch(meet: (place: string) => Promise<void> | undefined): void {
      const counts = new Map<string, number>();
      let isOn = false;
      for (const pod of [rootPod, kinPod]) {
        pod.points.meet = (passage) => {
          const { name } = passage;
          const keptOut = pod === rootPod ? keepOut(passage) : undefined;
          if (keptOut) return keptOut;
          isOn ||= name.startsWith('tool ');
          if (!isOn || name === 'hears' || name.endsWith('.checked')) return undefined;
          if (name === `step ${grandchild.sessionId} model:1`) isOn = false;
          const place = plain(pod, name);
          counts.set(place, (counts.get(place) ?? 0) + 1);
          return meet(`${place} ${counts.get(place)}`);
        };
      }
    }

    async function placesOfAdmission(): Promise<string[]> {
      const places: string[] = [];
      watch((place) => void places.push(place));
      await start(three());
      await isOver();
      return places;
    }

    /**
     * Plays the family up to a place, stops a turn while the pod is held there, and lets all come to rest. The grandchild
     * does not get beyond its first step. Null when the family did not come by, or the turn was not born yet.
     */
    async function stopAt(place: string, name: 'root' | 'child'): Promise<{ begunBehind: number } | null> {
      await begin();
      const last = kinPod.points.hold(`step ${grandchild.sessionId} model:1`);
      let isReached = false;
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      watch((passed) => {
        if (passed !== place) return undefined;
        isReached = true;
        return released;
      });
      await start(three());
      await ground.quiet();
      const session = name === 'root' ? root : child;
      const turn = await stage.firstOf(session);
      if (turn && isReached) await stage.stop(session, turn.turnId);
      await ground.quiet();
      const before = diary.begun.length;
      release();
      await ground.quiet();
      const begunBehind = diary.begun.length - before;
      last.release();
      await stage.finish(family(), rootPod, kinPod);
      return turn && isReached ? { begunBehind } : null;
    }

    it('lets no turn below begin a step, to the third generation, wherever it comes', async () => {
      const places = await placesOfAdmission();
      let missed = 0;
      for (const place of places) {
        const played = await stopAt(place, 'root');
        if (!played) missed++;
        else {
          const states = [];
          for (const session of family()) states.push((await stage.firstOf(session))?.state ?? 'unborn');
          expect({ place, ...played, states }).toEqual({
            ...{ place, begunBehind: 0 },
            states: ['stopped', expect.stringMatching(/stopped|unborn/), expect.stringMatching(/stopped|unborn/)],
          });
          expect((await stage.lives()).filter((life) => life.startsWith('turn.started'))).toHaveLength(1);
        }
        await isOver();
      }
      process.stdout.write(`${kind}: stopped at ${places.length - missed} places of two admissions\n`);
      expect(missed).toBeLessThanOrEqual(MISSED_MAX);
    });

    it('to the one in the middle leaves the root running, which hears that its child was stopped', async () => {
      const places = await placesOfAdmission();
      let stopped = 0;
      for (const place of places) {
        if (await stopAt(place, 'child')) {
          stopped++;
          const [top, middle, low] = await Promise.all(family().map((session) => stage.firstOf(session)));
          expect({ place, states: [top?.state, middle?.state, low?.state ?? 'unborn'] }).toEqual({
            place,
            states: ['completed', 'stopped', expect.stringMatching(/stopped|unborn/)],
          });
          expect({ place, reports: reportsTo(stage.rootTurn) }).toEqual({
            place,
            reports: [expect.stringContaining(' stopped.')],
          });
        }
        await isOver();
      }
      expect(stopped).toBeGreaterThan(40);
    });
  });

  describe('a child', () => {
    it('that is stopped at work ends as stopped, and its parent goes on with the report', async () => {
      const { turnId, release } = await childAtWork();
      await stage.stop(child, turnId);
      await ground.quiet();
      expect((await stage.row(turnId))?.state).toBe('stopped');
      release();
      await stage.finish(family(), rootPod, kinPod);
      expect((await stage.row())?.state).toBe('completed');
      expect(reportsTo(stage.rootTurn)).toEqual([await report('stopped', 'let me see')]);
      await isOver();
    });

    it('that is stopped before it starts never starts, and its parent goes on with the report', async () => {
      const acquiring = kinPod.points.hold('actor.acquiring');
      await start(pair());
      await acquiring.reached;
      await ground.quiet();
      const { turnId } = (await stage.firstOf(child))!;
      expect(await stage.stop(child, turnId)).toMatchObject({ state: 'stopped' });
      await ground.quiet();
      expect((await stage.row())?.state).toBe('completed');
      acquiring.release();
      await stage.finish(family(), rootPod, kinPod);
      expect(diary.of(turnId)).toEqual([]);
      expect(reportsTo(stage.rootTurn)).toEqual([await report('stopped')]);
      await isOver();
    });

    it('whose spawn is replayed by the next owner is the same child', async () => {
      rootPod.points.at('spawn.committed', async () => rootPod.die());
      await start(pair());
      await ground.quiet();
      await ground.behind.loseLock(root);
      const next = await ground.pod('next');
      await isOver(next, kinPod);
      expect((await stage.row())?.state).toBe('completed');
      expect((await stage.events()).filter(({ type }) => type === 'child.spawned')).toHaveLength(1);
      expect(await ground.turns.list(child, 0, 10, null)).toHaveLength(1);
      expect(diary.of((await stage.firstOf(child))!.turnId)).toEqual(['model:1']);
      expect(reportsTo(stage.rootTurn)).toEqual([await report('completed', 'let me see')]);
    });

    it('of a ninth generation is refused as the result of its call, and its parent goes on', async () => {
      const sessions = Array.from({ length: 9 }, (_, at) => (at === 0 ? root : stage.session(`c${at}`)));
      const plan = sessions
        .slice(1)
        .reduceRight<Plan>((below, { sessionId }) => ({ spawns: { [sessionId]: below }, awaits: true }), {});
      await start(plan);
      await stage.finish(sessions, rootPod, kinPod);
      const turns = await Promise.all(sessions.map((session) => stage.firstOf(session)));
      expect(turns.map((turn) => turn?.state)).toEqual([...Array<string>(8).fill('completed'), undefined]);
      expect(await stage.resultsIn(sessions[7]!)).toEqual(['error']);
      expect(diary.of(turns[7]!.turnId)).toContain('model:2');
    });

    it('in a session of others is refused as the result of its call, and its parent goes on', async () => {
      await stage.post({}, `${child.sessionId}-own`, kinPod, child);
      await stage.finish([child], kinPod);
      await start(pair());
      await isOver();
      expect(await stage.resultsIn(root)).toEqual(['error']);
      expect((await stage.row())?.state).toBe('completed');
      expect(await ground.turns.list(child, 0, 10, null)).toHaveLength(1);
    });
  });

  describe('a parent', () => {
    it('that is stopped while it waits ends with its children, and hears of none', async () => {
      const { turnId, release } = await childAtWork();
      await stage.stop();
      await ground.quiet();
      expect([(await stage.row())?.state, (await stage.row(turnId))?.state]).toEqual(['stopped', 'stopped']);
      release();
      await isOver();
      expect(await stage.row(reportTurnId(turnId))).toBeNull();
    });

    it('that is retried stops the children of its older generation first, and never hears of them', async () => {
      const { turnId, release } = await childAtWork(pair({ awaits: false }));
      expect((await stage.row())?.state).toBe('completed');
      const acting = rootPod.points.hold(`step ${root.sessionId} model:1`);
      await stage.retry();
      await acting.reached;
      await ground.quiet();
      expect(await stage.row(turnId)).toMatchObject({ state: 'stopped', stop: { via: { generation: 1 } } });
      release();
      acting.release();
      await isOver();
      expect(await stage.row()).toMatchObject({ state: 'completed', generation: 2 });
      expect(await stage.row(reportTurnId(turnId))).toBeNull();
      const [, ofSecond] = await ground.turns.list(child, 0, 10, null);
      expect(ofSecond).toMatchObject({ state: 'completed', parent: { generation: 2 } });
    });

    it('that is retried never hears a report that its older generation did not take in', async () => {
      const { turnId, release } = await childAtWork(pair({ awaits: false }));
      // The report comes while another turn is at work, and stands in line.
      const acting = rootPod.points.hold(`step ${root.sessionId} model:1`);
      await stage.post({}, `${root.sessionId}-other`);
      await acting.reached;
      release();
      await ground.quiet();
      const reportId = reportTurnId(turnId);
      expect((await stage.row(reportId))?.state).toBe('queued');
      await stage.retry();
      expect((await stage.row(reportId))?.state).toBe('stopped');
      acting.release();
      await isOver();
      expect(diary.of(reportId)).toEqual([]);
      expect(reportsTo(stage.rootTurn)).not.toContain(await report('completed', 'let me see'));
    });

    it('of an older generation spawns no child when the next one runs', async () => {
      const spawning = rootPod.points.hold('database.transaction');
      await start(pair({ awaits: false }));
      await spawning.reached;
      await stage.stop();
      await ground.quiet();
      // Its tool is deaf, and is not waited for any longer.
      await rootPod.clock.advance(rootPod.settings.stopToolWaitMs);
      await ground.quiet();
      expect((await stage.row())?.state).toBe('stopped');
      const acting = rootPod.points.hold(`step ${root.sessionId} model:1`);
      await stage.retry();
      await acting.reached;
      spawning.release();
      await ground.quiet();
      expect(await stage.firstOf(child)).toBeNull();
      acting.release();
      await isOver();
      expect(await ground.turns.list(child, 0, 10, null)).toMatchObject([{ parent: { generation: 2 } }]);
    });
  });

  describe('a report', () => {
    it.each(['absorb.before', 'database.transaction', 'database.transaction answers', 'absorb.committed'])(
      '[K1] reaches the model once, also when the parent’s pod dies at %s',
      async (place) => {
        const { turnId, release } = await childAtWork();
        rootPod.points.at(place, async () => rootPod.die());
        release();
        await ground.quiet();
        expect(rootPod.points.isDead).toBe(true);
        await ground.behind.loseLock(root);
        const next = await ground.pod('next');
        await stage.finish(family(), next, kinPod);
        expect(reportsTo(stage.rootTurn)).toEqual([await report('completed', 'let me see')]);
        expect(diary.of(reportTurnId(turnId))).toEqual([]);
        await isOver(next, kinPod);
      },
    );

    it('[K1] whose parent has ended is taken in by no other turn, and runs by itself', async () => {
      const { turnId, release } = await childAtWork(pair({ awaits: false }));
      const other = `${root.sessionId}-other`;
      const acting = rootPod.points.hold(`step ${root.sessionId} model:1`);
      await stage.post({ acts: ['a'] }, other);
      await acting.reached;
      release();
      await ground.quiet();
      acting.release();
      await stage.finish(family(), rootPod, kinPod);
      expect(reportsTo(other)).toEqual([]);
      expect(diary.of(reportTurnId(turnId))).toEqual(['model:1']);
      await isOver();
      expect(reportsTo(`${root.sessionId}-next`)).toEqual([await report('completed', 'let me see')]);
    });

    it('[K1] of each of three children that end at once reaches the model once', async () => {
      const children = ['c', 'd', 'e'].map((name) => stage.session(name));
      const holds = children.map(({ sessionId }) => kinPod.points.hold(`step ${sessionId} model:1`));
      await start({ spawns: Object.fromEntries(children.map(({ sessionId }) => [sessionId, {}])), awaits: true });
      for (const hold of holds) await hold.reached;
      await ground.quiet();
      for (const hold of holds) hold.release();
      await stage.finish([root, ...children], rootPod, kinPod);
      expect((await stage.row())?.state).toBe('completed');
      const reports = reportsTo(stage.rootTurn).map((said) => said.replace(/^Sub-agent (\S+)\/.*$/s, '$1'));
      expect(reports.sort()).toEqual(children.map(({ sessionId }) => sessionId));
      await isOver();
    });

    const ENDINGS = ['finish.before', 'database.transaction', 'database.transaction answers', 'finish.committed'];
    it.each([...ENDINGS, 'queue.enqueue', 'queue.enqueue answers'])(
      '[K2] starts no turn after its parent was stopped, with the child’s end at %s',
      async (place) => {
        const { turnId, release } = await childAtWork();
        const ending = kinPod.points.hold(place);
        release();
        await ending.reached;
        await ground.quiet();
        await stage.stop();
        await ground.quiet();
        ending.release();
        await isOver();
        const reportId = reportTurnId(turnId);
        expect(diary.of(reportId)).toEqual([]);
        expect((await stage.lives()).filter((life) => life === `turn.started ${reportId}`)).toEqual([]);
      },
    );

    it.each([...ENDINGS, 'queue.enqueue'])(
      '[K2] starts no turn after its parent was retried, with the child’s end at %s',
      async (place) => {
        const { turnId, release } = await childAtWork(pair({ awaits: false }));
        const ending = kinPod.points.hold(place);
        release();
        await ending.reached;
        await ground.quiet();
        const acting = rootPod.points.hold(`step ${root.sessionId} model:1`);
        await stage.retry();
        await acting.reached;
        ending.release();
        acting.release();
        await stage.finish(family(), rootPod, kinPod);
        expect(diary.of(reportTurnId(turnId))).toEqual([]);
        expect(reportsTo(stage.rootTurn).filter((said) => said.includes(turnId))).toEqual([]);
        expect(await stage.row()).toMatchObject({ state: 'completed', generation: 2 });
        await isOver();
      },
    );

    it('[K2] is not written when the parent was stopped behind its child', async () => {
      const { turnId, release } = await childAtWork();
      const ending = kinPod.points.hold('finish.before');
      await stage.stop(child, turnId);
      await ending.reached;
      await stage.stop();
      await ground.quiet();
      expect((await stage.row())?.state).toBe('stopped');
      ending.release();
      release();
      await isOver();
      expect(await stage.row(turnId)).toMatchObject({ state: 'stopped', stop: { by: 'ann' } });
      expect(await stage.row(reportTurnId(turnId))).toBeNull();
    });

    /** The child ends in the ledger, and its pod dies before it has told anybody. */
    async function endsUnheard(release: () => void): Promise<void> {
      kinPod.points.at('finish.committed', async () => kinPod.die());
      release();
      await ground.quiet();
      expect(kinPod.points.isDead).toBe(true);
    }

    it('[E2] reaches the waiting parent though the child’s pod dies right behind the commit', async () => {
      const { release } = await childAtWork();
      await endsUnheard(release);
      expect((await stage.row())?.state).toBe('running');
      // Only the pod that runs nothing looks: what it finds, it queues, and the owner hears of it.
      await ground.behind.letReconcile(root);
      await ground.sweep(door);
      expect((await stage.row())?.state).toBe('completed');
      expect(reportsTo(stage.rootTurn)).toEqual([await report('completed', 'let me see')]);
      await ground.behind.loseLock(child);
      await isOver(rootPod, await ground.pod('next'));
    });

    it('[K3] runs by itself when its parent did not wait and the child’s pod dies right behind the commit', async () => {
      const { turnId, release } = await childAtWork(pair({ awaits: false }));
      expect((await stage.row())?.state).toBe('completed');
      await endsUnheard(release);
      await ground.behind.letReconcile(root);
      await ground.sweep(door);
      expect(diary.of(reportTurnId(turnId))).toEqual(['model:1']);
      await ground.behind.loseLock(child);
      await isOver(rootPod, await ground.pod('next'));
      expect(reportsTo(`${root.sessionId}-next`)).toEqual([await report('completed', 'let me see')]);
    });
  });
});
