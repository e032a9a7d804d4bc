import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { encodeNotice, podName } from '#protocol';
import { Ground, GROUNDS } from './ground/ground.js';
import { refusal, StopStage, tellingAgent } from './ground/stop-stage.js';
import type { TracePod } from './ground/trace-pod.js';

/**
 * The failing traces of the models of a turn's life, of stop and retry, each played step by step against the real code:
 * what broke the design as it was first written must not break this one.
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

  /** Pods that hear nothing of each other, unless they are `notified`: the test decides who looks when. */
  async function open({ notified = false } = {}): Promise<void> {
    stage = await StopStage.open(ground, { notified });
    first = await ground.pod('a', { notified });
    second = await ground.pod('b', { notified: false });
  }

  const ENDINGS = ['queues it', 'dies', 'queues it, and Redis has lost the record'];

  it.each(ENDINGS)(
    '[B1] a stop between the commit of a message and its way into the line ends it: its pod %s',
    async (then) => {
      await open();
      const committed = stage.door.points.hold('intake.committed');
      const posting = stage.post();
      await committed.reached;
      expect(await stage.stop({ by: first })).toMatchObject({ state: 'stopped', already: false });
      if (then === 'dies') {
        stage.door.die();
      } else {
        if (then !== 'queues it') await ground.behind.forget(stage.session, [stage.named('t')]);
        committed.release();
        expect((await posting).accepted).toMatchObject({ generation: 1, state: 'queued' });
      }
      await stage.rest(first);
      expect(await stage.story()).toEqual(['message.accepted 1', 'turn.stopped 1 stop']);
      expect(stage.begun()).toBe(0);
    },
  );

  it.each([
    ['before', 'completed 1'],
    ['after', 'queued 2'],
  ])('[B2] the record takes a retry in when the end of its former generation is told %s it', async (when, between) => {
    await open();
    const { finish, retry } = await endedAndRetried();
    const behind = first.points.hold('step model:1');
    (when === 'before' ? finish : retry).release();
    await ground.quiet();
    expect(await ground.behind.record(stage.session, stage.named('t'))).toBe(between);
    (when === 'before' ? retry : finish).release();
    await ground.quiet();
    if (!behind.isReached) await ground.sweep(first);
    expect(await ground.behind.record(stage.session, stage.named('t'))).toBe('running 2');
    behind.release();
    await stage.rest(first);
    expect(await stage.state()).toBe('completed 2');
    expect(stage.begun(2)).toBe(4);
  });

  /** A turn that has ended in the ledger, and its retry that is committed; neither has been told to Redis yet. */
  async function endedAndRetried() {
    await stage.post();
    const finish = first.points.hold('finish.committed');
    await ground.sweep(first);
    await finish.reached;
    const retry = stage.door.points.hold('retry.committed');
    void stage.retry(1);
    await retry.reached;
    return { finish, retry };
  }

  it.each(['waits', 'runs'])('[B3] the POST of a turn that was stopped while it %s gets its 202 again', async (was) => {
    await open();
    const { accepted } = await stage.post();
    const step = first.points.hold('step model:1');
    if (was === 'runs') await ground.sweep(first);
    await stage.stop();
    expect(await stage.post()).toEqual({ accepted, replayed: true });
    step.release();
    await stage.rest(first);
    expect(await stage.state()).toBe('stopped 1');
    expect(await stage.post()).toEqual({ accepted, replayed: true });
    await stage.rest(first);
    expect((await stage.story()).filter((told) => told.startsWith('message.'))).toEqual(['message.accepted 1']);
    expect(stage.begun()).toBe(was === 'runs' ? 1 : 0);
  });

  it('[B4] a retry that is sent twice, also after its generation has run, is one retry', async () => {
    await open();
    await stage.post();
    await stage.rest(first);
    const { accepted } = await stage.retry(1);
    expect(accepted).toMatchObject({ generation: 2, state: 'queued' });
    expect(await stage.retry(1)).toEqual({ accepted, replayed: true });
    const step = first.points.hold('step model:1');
    await ground.sweep(first);
    expect(await stage.retry(1)).toEqual({ accepted, replayed: true });
    step.release();
    await stage.rest(first);
    expect(await stage.retry(1)).toEqual({ accepted, replayed: true });
    await stage.rest(first);
    expect(await stage.state()).toBe('completed 2');
    expect((await stage.story()).filter((told) => told.startsWith('turn.queued'))).toEqual(['turn.queued 2']);
    expect(stage.begun(2)).toBe(4);
  });

  it('[B4] the same retry that many send at once is one retry, and all get its answer', async () => {
    await open();
    await stage.post();
    await stage.rest(first);
    const answers = await Promise.all(Array.from({ length: 6 }, () => stage.retry(1)));
    expect(new Set(answers.map(({ accepted }) => JSON.stringify(accepted))).size).toBe(1);
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1);
    await stage.rest(first);
    expect(await stage.state()).toBe('completed 2');
  });

  it('[B5] a late stop notice of one generation does nothing to the next', async () => {
    await open({ notified: true });
    const step = first.points.hold('step model:1');
    await stage.post();
    await step.reached;
    const told = second.points.hold('stop.committed');
    const stopping = stage.stop({ by: second });
    await told.reached;
    await ground.sweep(first);
    expect(await stage.state()).toBe('stopped 1');
    const next = first.points.hold('step model:1');
    await stage.retry(1);
    await next.reached;
    told.release();
    expect(await stopping).toMatchObject({ state: 'stop_requested', generation: 1 });
    const { account, sessionId } = stage.session;
    const late = { type: 'stop', account, sessionId, turnId: stage.named('t'), generation: 1 } as const;
    await stage.door.channels.publish(ground.keys.podChannel(podName(first.identity)), encodeNotice(late));
    await ground.quiet();
    await ground.sweep(first);
    expect(await stage.state()).toBe('running 2');
    next.release();
    await stage.rest(first);
    expect(await stage.state()).toBe('completed 2');
    expect(await ground.behind.record(stage.session, stage.named('t'))).toBe('completed 2');
  });

  it.each(['hears of it', 'finds it at its sweep'])(
    '[Bx7] a stop right behind the start ends the turn when its pod %s',
    async (how) => {
      await open({ notified: how === 'hears of it' });
      const started = first.points.hold('gate3.committed');
      const step = first.points.hold('step model:1');
      await stage.post();
      if (!first.notified) await ground.sweep(first);
      await started.reached;
      expect(await stage.stop()).toMatchObject({ state: 'stop_requested' });
      await ground.quiet();
      started.release();
      await ground.quiet();
      // Who has heard of the stop begins nothing.
      expect(step.isReached).toBe(!first.notified);
      if (!first.notified) await ground.sweep(first);
      await ground.quiet();
      expect(await stage.story()).toEqual([
        ...['message.accepted 1', 'turn.started 1', 'turn.stop_requested 1', 'turn.stopped 1 running'],
      ]);
      await stage.rest(first);
      expect(stage.begun()).toBe(first.notified ? 0 : 1);
    },
  );

  it('[Bx8] a stop whose pod dies before it has told anybody ends the running turn at the next sweep', async () => {
    await open({ notified: true });
    const step = first.points.hold('step model:1');
    await stage.post();
    await step.reached;
    stage.door.points.at('stop.committed', () => {
      stage.door.die();
      return undefined;
    });
    void stage.stop();
    await ground.quiet();
    expect(await stage.state()).toBe('stop_requested 1');
    await ground.sweep(first);
    expect(await stage.state()).toBe('stopped 1');
    expect(stage.begun()).toBe(1);
  });

  it('[G2] a stop that names the next generation beats the retry, and that generation can be retried', async () => {
    await open();
    await stage.post();
    await stage.stop();
    const ahead = { turnId: stage.named('t'), generation: 2, state: 'stopped' };
    expect(await refusal(stage.stop({ generation: 3 }))).toBe('stale_generation 1');
    expect(await stage.stop({ generation: 2 })).toMatchObject({ ...ahead, already: false });
    expect(await stage.stop({ generation: 2 })).toMatchObject({ ...ahead, already: true });
    expect(await refusal(stage.retry(1))).toBe('turn_stopped 2');
    await stage.rest(first);
    expect(await stage.state()).toBe('stopped 2');
    expect((await stage.retry(2)).accepted).toMatchObject({ generation: 3, state: 'queued' });
    expect(await refusal(stage.retry(1))).toBe('stale_generation 3');
    expect(await refusal(stage.stop({ generation: 2 }))).toBe('stale_generation 3');
    await stage.rest(first);
    expect(await stage.story()).toEqual([
      ...['message.accepted 1', 'turn.stopped 1 stop', 'turn.stopped 2 stop'],
      ...['turn.queued 3', 'turn.started 3', 'turn.completed 3'],
    ]);
  });

  it('[G2] of a retry and a stop of the generation that it begins, sent at once, the turn keeps what both were told', async () => {
    await open();
    for (let round = 0; round < 12; round++) {
      const turnId = `t${round}`;
      await stage.post(turnId);
      await stage.stop({ turnId });
      const [retried, stopped] = await Promise.all([
        stage.retry(1, turnId).then(
          ({ accepted }) => `accepted ${accepted.generation}`,
          () => refusal(stage.retry(1, turnId)),
        ),
        stage.stop({ turnId, generation: 2, by: first }),
      ]);
      expect(['accepted 2', 'turn_stopped 2']).toContain(retried);
      expect(stopped).toMatchObject({ generation: 2, state: 'stopped', already: false });
    }
    await stage.rest(first);
    expect(stage.begun(2, stage.named('t0'))).toBe(0);
    expect((await stage.story()).filter((told) => told.startsWith('turn.started'))).toEqual([]);
  });

  it('[G3] a tombstone is not retried, whichever generation is named', async () => {
    await open();
    expect(await stage.stop()).toMatchObject({ generation: 1, state: 'stopped', already: false });
    expect(await refusal(stage.retry(1))).toBe('turn_stopped 1');
    expect(await refusal(stage.post())).toBe('turn_stopped 1');
    expect(await refusal(stage.retry(1))).toBe('turn_stopped 1');
    expect(await stage.stop({ generation: 2 })).toMatchObject({ generation: 2, already: false });
    expect(await refusal(stage.retry(1))).toBe('turn_stopped 2');
    expect(await refusal(stage.retry(2))).toBe('turn_stopped 2');
    expect(await refusal(stage.post())).toBe('turn_stopped 2');
    await stage.rest(first);
    expect(await stage.state()).toBe('stopped 2');
    expect(await stage.story()).toEqual(['turn.stopped 1 stop', 'message.refused 1', 'turn.stopped 2 stop']);
    expect(stage.begun()).toBe(0);
  });
});
