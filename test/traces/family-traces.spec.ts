import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ButlerError, StaleOwnerError } from '#protocol';
import { Ground, GROUNDS } from './ground/ground.js';
import { refusal, StopStage, tellingAgent } from './ground/stop-stage.js';
import type { TracePod } from './ground/trace-pod.js';

/** Turns with children that are stopped at once. */
const FAMILIES = 16;

/**
 * The failing traces of the models of children, their stop and their retry, each played step by step against the real
 * code, and many at once: what broke the design as it was first written must not break this one (I9).
 */
describe.each(GROUNDS)('on the %s servers', (kind) => {
  let ground: Ground;
  let stage: StopStage;
  let first: TracePod;
  let second: TracePod;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    ground = await Ground.open(kind, tellingAgent);
  });
  afterEach(() => ground.clear());
  afterAll(() => ground.close());

  /** Pods that hear nothing of each other: the test decides who looks when. */
  async function open(): Promise<void> {
    stage = await StopStage.open(ground);
    first = await ground.pod('a', { notified: false });
    second = await ground.pod('b', { notified: false });
  }

  /** A turn that runs on the first pod, held in its first step. */
  async function running(): Promise<{ release(): void }> {
    await stage.post();
    const step = first.points.hold('step model:1');
    await ground.sweep(first);
    await step.reached;
    return step;
  }

  it('[D1] stops and spawns of many families at once are all decided, and no stopped turn keeps a live child', async () => {
    await open();
    const release = holdFirstSteps();
    const families = Array.from({ length: FAMILIES }, () => stage.another());
    for (const family of families) await family.post();
    await ground.sweep(first);
    const children = await Promise.all(families.map((family) => family.spawn(stage.door)));
    await ground.sweep(second);
    expect(new Set(await Promise.all(children.map(({ turnId }) => stage.state(turnId))))).toEqual(
      new Set(['running 1']),
    );
    await allDecided(
      families.flatMap((family, at) => {
        const parent = children[at]!;
        return shuffled(at, [
          () => family.spawn(first, { callId: 'd' }),
          () => family.stop({ by: at % 2 ? first : second }),
          () => family.spawn(second, { callId: 'e' }),
          () => family.spawn(second, { parent, callId: 'f' }),
          () => family.stopChild(parent, first),
          () => family.spawn(first, { parent, callId: 'g' }),
        ]);
      }),
    );
    for (const family of families) {
      expect(await family.state()).toBe('stop_requested 1');
      const below = await family.below();
      expect(below.filter((state) => !/^(stopped|stop_requested) 1$/.test(state))).toEqual([]);
    }
    release();
    for (const family of families) await family.rest(first, second);
    for (const family of families)
      expect(new Set([await family.state(), ...(await family.below())])).toEqual(new Set(['stopped 1']));
  });

  it('[D1] retries and stops in many families at once are all decided, and no stopped turn keeps a live child', async () => {
    await open();
    const families = Array.from({ length: FAMILIES }, () => stage.another());
    let release = holdFirstSteps();
    for (const family of families) await family.post();
    await ground.sweep(first);
    const children = await Promise.all(families.map((family) => family.spawn(stage.door)));
    release();
    for (const family of families) await family.rest(first, second);
    release = holdFirstSteps();
    await allDecided(
      families.flatMap((family, at) =>
        shuffled(at, [
          () => family.retry(1),
          () => family.retryChild(children[at]!),
          () => family.stop({ by: second, generation: 2 }),
          () => family.retry(1),
          () => family.stopChild(children[at]!, first),
        ]),
      ),
    );
    for (const family of families) {
      const [state, below] = [await family.state(), await family.below()];
      expect(state).toBe('stopped 2');
      expect(below.filter((child) => !/^(stopped|stop_requested|completed)/.test(child))).toEqual([]);
    }
    release();
    for (const family of families) await family.rest(first, second);
  });

  /** All turns are held in their first step until this is called. */
  function holdFirstSteps(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    for (const pod of [first, second]) {
      pod.points.meet = ({ name }) => (name === 'step model:1' ? promise : undefined);
    }
    return () => {
      for (const pod of [first, second]) pod.points.meet = null;
      resolve();
    };
  }

  it('[D2] a stop of a turn that has ended stops its running child, which does not report', async () => {
    await open();
    const parent = await running();
    const child = await stage.spawn(stage.door);
    const step = second.points.hold('step model:1');
    await ground.sweep(second);
    await step.reached;
    parent.release();
    await ground.quiet();
    expect(await stage.state()).toBe('completed 1');
    expect(await stage.stop()).toMatchObject({ state: 'completed', generation: 1, already: true });
    expect(await stage.state(child.turnId)).toBe('stop_requested 1');
    await ground.sweep(second);
    expect(await stage.story(child.sessionId)).toEqual([
      ...['message.accepted 1', 'turn.started 1', 'turn.stop_requested 1', 'turn.stopped 1 running'],
    ]);
    expect((await stage.row(child.turnId))!.stop!.via).toEqual({ turnId: stage.named('t'), generation: 1 });
    await stage.rest(first, second);
    expect(stage.begun(1, child.turnId)).toBe(1);
    expect(await stage.story()).toEqual(['message.accepted 1', 'turn.started 1', 'turn.completed 1']);
  });

  it('[D2] a stop of a turn that has ended stops a grandchild that waits', async () => {
    await open();
    const parent = await running();
    const child = await stage.spawn(stage.door);
    const step = second.points.hold('step model:1');
    await ground.sweep(second);
    await step.reached;
    const grandchild = await stage.spawn(stage.door, { parent: child });
    parent.release();
    step.release();
    await ground.quiet();
    expect(await stage.state(child.turnId)).toBe('completed 1');
    await stage.stop();
    expect(await stage.state(grandchild.turnId)).toBe('stopped 1');
    await stage.rest(first, second);
    expect(stage.begun(1, grandchild.turnId)).toBe(0);
  });

  it('[D3] a child of a stopped turn is not retried until that one is', async () => {
    await open();
    const parent = await running();
    const child = await stage.spawn(stage.door);
    await ground.sweep(second);
    expect(await stage.state(child.turnId)).toBe('completed 1');
    await stage.stop();
    expect(await refusal(stage.retryChild(child))).toBe('turn_stopped');
    await ground.sweep(first);
    parent.release();
    await stage.rest(first, second);
    expect(await stage.state()).toBe('stopped 1');
    expect(await refusal(stage.retryChild(child))).toBe('turn_stopped');
    expect(await stage.state(child.turnId)).toBe('completed 1');
    await stage.retry(1);
    expect((await stage.retryChild(child)).accepted).toMatchObject({ turnId: child.turnId, generation: 2 });
    await stage.rest(first, second);
    expect(await stage.state(child.turnId)).toBe('completed 2');
  });

  it('[D4] a zombie of a stopped generation spawns nothing under the retried turn', async () => {
    await open();
    await running();
    await stage.stop();
    expect(await refusal(stage.spawn(first))).toBe('turn_stopped');
    await ground.behind.loseLock(stage.session);
    await ground.sweep(second);
    expect(await stage.state()).toBe('stopped 1');
    expect(await refusal(stage.spawn(first))).toBe('turn_stopped');
    await stage.retry(1);
    expect(await stage.state()).toBe('queued 2');
    await expect(stage.spawn(first)).rejects.toThrow(StaleOwnerError);
    const step = second.points.hold('step model:1');
    await ground.sweep(second);
    await step.reached;
    await expect(stage.spawn(first)).rejects.toThrow(StaleOwnerError);
    // Nor does who has heard of the retry, but does not own it.
    await expect(stage.spawn(first, { parent: stage.ref('t', 2) })).rejects.toThrow(StaleOwnerError);
    const child = await stage.spawn(second, { parent: stage.ref('t', 2), epoch: 2 });
    step.release();
    await stage.rest(second);
    expect(await stage.state(child.turnId)).toBe('completed 1');
    expect(await stage.story(child.sessionId)).toEqual(['message.accepted 1', 'turn.started 1', 'turn.completed 1']);
  });
});

/** Makes all calls at once; each is carried out or refused. */
async function allDecided(calls: readonly (() => Promise<unknown>)[]): Promise<void> {
  const outcomes = await Promise.allSettled(calls.map((call) => call()));
  const failed = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as Error] : []));
  const isRefusal = (error: Error): boolean => error instanceof ButlerError || error instanceof StaleOwnerError;
  expect(failed.filter((error) => !isRefusal(error))).toEqual([]);
}

/** Another order for each `at`. */
function shuffled<T>(at: number, all: readonly T[]): T[] {
  const from = at % all.length;
  const turned = [...all.slice(from), ...all.slice(0, from)];
  return at % 2 ? turned : turned.reverse();
}
