import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { SessionKey } from '#protocol';
import { Ground, GROUNDS } from './ground/ground.js';
import type { Hold } from './ground/points.js';
import type { TracePod } from './ground/trace-pod.js';
import { eachOnce, Watch, watchedAgent } from './ground/watch.js';

/** Longer than pods wait for each other before they look at what a dead one has left. */
const SPREAD_MS = 50;

/**
 * The failing traces of the model of presence, each played step by step against the real code. A owns the session and is
 * in the middle of a step; B looks whether A is there.
 */
describe.each(GROUNDS)('on the %s servers', (kind) => {
  let ground: Ground;
  let session: SessionKey;
  let watch: Watch;
  let a: TracePod;
  let b: TracePod;
  let turnId: string;
  /** The step that A is at. */
  let acting: Hold;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    ground = await Ground.open(kind, watchedAgent);
  });
  beforeEach(async () => {
    session = ground.session();
    watch = new Watch(ground, session);
    turnId = `${session.sessionId}-m0`;
    a = await ground.pod('a');
    acting = a.points.hold('step model:1');
    await a.post(session, turnId);
    await acting.reached;
    b = await looking('b');
  });
  afterEach(() => ground.clear());
  afterAll(() => ground.close());

  /** A pod that has seen that A is there. */
  async function looking(name: string): Promise<TracePod> {
    const pod = await ground.pod(name);
    await pod.presence.start();
    await ground.quiet();
    await pod.presence.look();
    return pod;
  }

  /** A pod looks as often as a verdict takes. */
  async function misses(...pods: TracePod[]): Promise<void> {
    for (const pod of pods) {
      for (let look = 0; look < pod.settings.presenceMisses; look++) await pod.presence.look();
    }
  }

  /** Pods act on their verdict. */
  async function act(...pods: TracePod[]): Promise<void> {
    for (const pod of pods) await pod.clock.advance(SPREAD_MS);
    await ground.quiet();
  }

  const isOwner = (pod: TracePod, epoch: number): Promise<boolean> =>
    ground.behind.isOwner(session, { ...pod.identity, epoch });

  /** Its turn ran once, under A from the beginning to the end. */
  async function wentOn(): Promise<void> {
    expect(await watch.isDone()).toBe(true);
    expect(await watch.turnsOf('turn.resumed')).toEqual([]);
    expect(watch.begun(turnId)).toEqual(eachOnce(turnId));
  }

  /** Its turn went on under another owner, and A has begun nothing but the step that it was at. */
  async function wasTakenOver(): Promise<void> {
    expect(await watch.isDone()).toBe(true);
    expect(await watch.turnsOf('turn.resumed')).toEqual([turnId]);
    expect(watch.runs.filter(({ epoch }) => epoch === 1).map(({ step }) => step)).toEqual(['model:1']);
  }

  it('[P1] a pod that nobody hears begins nothing, though its renewal is answered', async () => {
    await a.dropOff();
    expect(await a.keeper.renewNow()).toBe(true);
    acting.release();
    await ground.quiet();
    // The step under way has ended and is recorded.
    expect(await watch.turnsOf('model.message')).toEqual([turnId]);
    await misses(b);
    await act(b);
    await wasTakenOver();
    await a.comeBack();
    await ground.quiet();
    expect(a.keeper.size).toBe(0);
    await wasTakenOver();
    expect(watch.begun(turnId)).toEqual(eachOnce(turnId));
  });

  describe('[P2] a lock is removed only', () => {
    it('while nobody hears its owner: one that can be heard again by then keeps it', async () => {
      await a.dropOff();
      await misses(b);
      const burying = b.points.hold('actor.burying');
      await act(b);
      expect(burying.isReached).toBe(true);
      await a.comeBack();
      await ground.quiet();
      burying.release();
      await ground.quiet();
      expect(await isOwner(a, 1)).toBe(true);
      expect(b.keeper.size).toBe(0);
      acting.release();
      await ground.quiet();
      await wentOn();
    });

    it('as long as it is that owner’s: who comes too late leaves it to the next owner', async () => {
      const late = await looking('c');
      await a.dropOff();
      await misses(b, late);
      const burying = late.points.hold('actor.burying');
      await act(late);
      expect(burying.isReached).toBe(true);
      const resumed = b.points.hold('step model:1');
      await act(b);
      expect([resumed.isReached, await isOwner(b, 2)]).toEqual([true, true]);
      burying.release();
      await ground.quiet();
      expect(await isOwner(b, 2)).toBe(true);
      expect(late.keeper.size).toBe(0);
      resumed.release();
      acting.release();
      await ground.quiet();
      await wasTakenOver();
    });
  });

  it('[P6] a pod that is started again under its POD_ID does not hide its death', async () => {
    a.die();
    await a.dropOff();
    const successor = await ground.pod('a again', { podId: 'a' });
    await ground.quiet();
    await misses(b);
    await act(b);
    // Nobody's lease has run out, and nobody has swept.
    expect(await isOwner(b, 2)).toBe(true);
    expect(successor.keeper.size).toBe(0);
    await wasTakenOver();
  });
});
