import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Ground, GROUNDS } from './ground/ground.js';
import { LineStage } from './ground/line-stage.js';
import type { Hold } from './ground/points.js';
import type { TracePod } from './ground/trace-pod.js';
import { eachOnce, watchedAgent } from './ground/watch.js';

/**
 * The failing traces of the models of Redis' loss and its filling, each played step by step against the real code. P posts,
 * R0 and R1 fill, A0 and A1 are the owners.
 */
describe.each(GROUNDS)('on the %s servers', (kind) => {
  let ground: Ground;
  let stage: LineStage;
  /** They fill, and serve nothing themselves. */
  let fillers: [TracePod, TracePod];

  beforeAll(async () => {
    Logger.overrideLogger(false);
    ground = await Ground.open(kind, watchedAgent);
  });
  beforeEach(async () => {
    fillers = [await ground.pod('r0', { actors: false }), await ground.pod('r1', { actors: false })];
  });
  afterEach(() => ground.clear());
  afterAll(() => ground.close());

  const look = () => ground.behind.look(stage.session);
  const mark = () => ground.behind.mark(stage.session);

  it('[A3] a refill puts turns in line by their place in the ledger, not as they had come to the line', async () => {
    stage = await LineStage.open(ground);
    const enqueue = await stage.accept('m0');
    await stage.post('m1');
    expect(await look()).toMatchObject({ pending: stage.line('m1') });
    await stage.flush('m0', 'm1');
    await stage.fill(fillers[0]);
    expect(await look()).toMatchObject({ pending: stage.line('m0', 'm1'), processing: [] });
    await ground.sweep(stage.first);
    await enqueue();
    await stage.finish(stage.first);
    await stage.inOrder('m0', 'm1');
  });

  describe('[C1] a second loss in the middle of a refill', () => {
    it('between the lists of two sessions leaves neither of them out', async () => {
      const one = await LineStage.open(ground);
      stage = await LineStage.open(ground, { beside: one.session });
      await one.post('m0');
      await stage.post('m0');
      const loseAll = async (): Promise<void> => {
        await one.flush('m0');
        await stage.flush('m0');
      };
      await loseAll();
      const { promise: written, resolve: write } = Promise.withResolvers<void>();
      fillers[0].points.meet = ({ name, sessionId }) =>
        name === 'queue.restore' && sessionId === stage.session.sessionId ? written : undefined;
      const filling = stage.fill(fillers[0]);
      await ground.quiet();
      expect(await ground.behind.look(one.session)).toMatchObject({ pending: one.line('m0') });
      await loseAll();
      write();
      await filling;
      expect(await mark()).toBeNull();
      // Nobody but a filler puts the first one in line again: the reconciler is not asked.
      await stage.fill(fillers[1]);
      expect(await mark()).toBe('yes');
      expect(await ground.behind.look(one.session)).toMatchObject({ pending: one.line('m0') });
      expect(await look()).toMatchObject({ pending: stage.line('m0') });
      await stage.finish(stage.first);
      await one.inOrder('m0');
      await stage.inOrder('m0');
    });

    it('behind the lists does not leave the partition marked as filled', async () => {
      stage = await LineStage.open(ground);
      await stage.post('m0');
      await stage.flush('m0');
      const filled = fillers[0].points.hold('recovery.filled');
      const filling = stage.fill(fillers[0]);
      await filled.reached;
      expect(await look()).toMatchObject({ pending: stage.line('m0') });
      await stage.flush('m0');
      filled.release();
      await filling;
      expect(await mark()).toBeNull();
      await stage.fill(fillers[1]);
      expect(await mark()).toBe('yes');
      expect(await look()).toMatchObject({ pending: stage.line('m0') });
      await stage.finish(stage.first);
      await stage.inOrder('m0');
    });
  });

  describe('[C2] a filler that stood still until another one had filled', () => {
    /** R0 stands still at a place behind its reading; its mark runs out, and R1 fills. */
    async function overtake(place: string): Promise<{ paused: Hold; filling: Promise<void> }> {
      await stage.flush('m0');
      const paused = fillers[0].points.hold(place);
      const filling = stage.fill(fillers[0]);
      await paused.reached;
      return { paused, filling };
    }

    it('and had read nothing does not throw away what was posted since', async () => {
      stage = await LineStage.open(ground);
      const { paused, filling } = await overtake('recovery.filled');
      const enqueue = await stage.accept('m0');
      await ground.behind.loseMark(stage.session);
      await stage.fill(fillers[1]);
      expect(await mark()).toBe('yes');
      await enqueue();
      const next = await stage.accept('m1');
      paused.release();
      await filling;
      await next();
      expect(await look()).toMatchObject({ pending: stage.line('m0', 'm1'), processing: [] });
      await stage.finish(stage.first);
      await stage.inOrder('m0', 'm1');
    });

    it('and had read what is over by now touches no line', async () => {
      stage = await LineStage.open(ground);
      await stage.post('m0');
      const { paused, filling } = await overtake('queue.restore');
      await ground.behind.loseMark(stage.session);
      await stage.fill(fillers[1]);
      await ground.sweep(stage.second);
      await stage.inOrder('m0');
      await stage.post('m1', 'm2');
      const before = await look();
      expect(before).toMatchObject({ pending: stage.line('m1', 'm2'), processing: [] });
      paused.release();
      await filling;
      expect(await look()).toEqual(before);
      expect(await mark()).toBe('yes');
      await stage.finish(stage.second);
      await stage.inOrder('m0', 'm1', 'm2');
    });
  });

  describe('an owner between its taking and its start, whose lock Redis has lost', () => {
    /** A0 has claimed with m0, has taken m1, and stands before gate 3. */
    async function take(): Promise<Hold> {
      stage = await LineStage.open(ground, { notified: true });
      const { first, second } = stage;
      // From their second look on they know that somebody may own what they fill.
      await ground.sweep(first, second, ...fillers);
      // The other one serves nothing until it is to.
      second.points.meet = ({ name }) =>
        name === 'actor.acquiring' ? Promise.reject(new Error('not yet')) : undefined;
      await stage.post('m0');
      await ground.quiet();
      await stage.inOrder('m0');
      const starting = first.points.hold('gate3.before');
      await stage.post('m1');
      await starting.reached;
      await ground.quiet();
      second.points.meet = null;
      return starting;
    }

    /** A0 goes on, and A1 never was the owner. */
    async function goesOn(starting: Hold): Promise<void> {
      const { first, second, session, watch } = stage;
      expect(await ground.behind.isOwner(session, { ...first.identity, epoch: 1 })).toBe(true);
      starting.release();
      await ground.quiet();
      await stage.finish(first, second);
      await stage.inOrder('m0', 'm1');
      expect(await watch.turnsOf('owner.changed')).toHaveLength(1);
      expect(watch.begun(stage.named('m1'))).toEqual(eachOnce(stage.named('m1')));
    }

    it('[G1] has it back before the partition is filled, though its turn does not run yet', async () => {
      const starting = await take();
      await stage.flush('m0', 'm1');
      await stage.fill(fillers[0]);
      expect(await mark()).toBe('yes');
      await ground.sweep(stage.second);
      await goesOn(starting);
    });

    it('[S3x] is not overtaken by whoever finds its turn in line before the partition is filled', async () => {
      const starting = await take();
      await stage.flush('m0', 'm1');
      // Said again, m1 stands in line, and A1 has heard of it.
      await stage.post('m1');
      stage.second.supervisor.offer(stage.session);
      await ground.quiet();
      expect(await look()).toMatchObject({ pending: stage.line('m1'), processing: [] });
      expect(stage.second.keeper.size).toBe(0);
      await stage.second.clock.advance(stage.second.settings.refillWaitMs);
      await ground.quiet();
      expect(await mark()).toBe('yes');
      await goesOn(starting);
    });
  });
});
