import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { SessionKey } from '#protocol';
import { UnavailableError } from '#platform';
import { Ground, GROUNDS } from './ground/ground.js';
import { LineStage } from './ground/line-stage.js';
import type { TracePod } from './ground/trace-pod.js';
import { eachOnce, type Watch, watchedAgent } from './ground/watch.js';

/**
 * The failing traces of the models of locks and order, each played step by step against the real code: what broke the
 * design as it was first written must not break this one. P posts, A0 and A1 are the owners.
 */
describe.each(GROUNDS)('on the %s servers', (kind) => {
  let ground: Ground;
  let stage: LineStage;
  let session: SessionKey;
  let watch: Watch;
  let poster: TracePod;
  let first: TracePod;
  let second: TracePod;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    ground = await Ground.open(kind, watchedAgent);
  });
  beforeEach(async () => {
    stage = await LineStage.open(ground);
    ({ session, watch, poster, first, second } = stage);
  });
  afterEach(() => ground.clear());
  afterAll(() => ground.close());

  const named = (turnId: string): string => stage.named(turnId);
  const line = (...turnIds: string[]): string[] => stage.line(...turnIds);
  const post = (...turnIds: string[]): Promise<void> => stage.post(...turnIds);
  const finish = (...pods: TracePod[]): Promise<void> => stage.finish(...pods);
  const inOrder = (...turnIds: string[]): Promise<void> => stage.inOrder(...turnIds);

  it('[A1] a turn that its former owner has started is taken over, and no other starts beside it', async () => {
    await post('m0', 'm1');
    const paused = first.points.hold('gate3.before');
    await ground.sweep(first);
    expect(paused.isReached).toBe(true);
    await ground.behind.loseLock(session);
    const begun = first.points.hold('step model:1');
    paused.release();
    await begun.reached;
    await ground.sweep(second);
    expect(await watch.turnsOf('turn.resumed')).toEqual([named('m0')]);
    begun.release();
    await ground.quiet();
    await finish(second, first);
    await inOrder('m0', 'm1');
  });

  it('[A2] after a failover that lost the turn under way the next message does not start beside it', async () => {
    await post('m0');
    const enqueue = await stage.accept('m1');
    const paused = first.points.hold('gate3.before');
    await ground.sweep(first);
    // The replica had seen neither the lease nor the message.
    await ground.behind.setBack(session, { lock: null });
    await ground.behind.forget(session, [named('m0')]);
    await enqueue();
    const begun = first.points.hold('step model:1');
    paused.release();
    await begun.reached;
    expect(await ground.behind.look(session)).toEqual({ lock: null, pending: line('m1'), processing: [] });
    const beside = second.points.hold('step model:1');
    await ground.sweep(second);
    expect(beside.isReached).toBe(true);
    expect(await watch.turnsOf('turn.started')).toEqual([named('m0')]);
    expect(await watch.turnsOf('turn.resumed')).toEqual([named('m0')]);
    beside.release();
    begun.release();
    await ground.quiet();
    await finish(second, first);
    await inOrder('m0', 'm1');
  });

  it('[A2b] after a failover that lost a message the next one of its sender does not start before it', async () => {
    await post('m0');
    const enqueue = await stage.accept('m1');
    await ground.behind.setBack(session, {});
    await ground.behind.forget(session, [named('m0')]);
    await enqueue();
    expect(await ground.behind.look(session)).toEqual({ lock: null, pending: line('m1'), processing: [] });
    const begun = first.points.hold('step model:1');
    await ground.sweep(first);
    expect(begun.isReached).toBe(true);
    expect(await watch.turnsOf('turn.started')).toEqual([named('m0')]);
    begun.release();
    await ground.quiet();
    await inOrder('m0', 'm1');
    await finish(first);
  });

  it('[A2c] a turn that runs in the ledger and stands in no list is found, though its owner is dead', async () => {
    await post('m0');
    const paused = first.points.hold('gate3.before');
    await ground.sweep(first);
    await ground.behind.setBack(session, { lock: null });
    await ground.behind.forget(session, [named('m0')]);
    const begun = first.points.hold('step model:1');
    paused.release();
    await begun.reached;
    first.die();
    expect(await ground.behind.look(session)).toEqual({ lock: null, pending: [], processing: [] });
    await finish(second);
    await inOrder('m0');
    expect(await watch.turnsOf('turn.resumed')).toEqual([named('m0')]);
  });

  it('[A4] a take whose reply was lost answers the same message again', async () => {
    const stranded = poster.points.hold('intake.committed');
    const posting = post('m0');
    await stranded.reached;
    // The reconciler puts m0 in line, as its poster will once more.
    await ground.behind.letReconcile(session);
    await ground.sweep(poster);
    await post('m1');
    expect(await ground.behind.look(session)).toMatchObject({ pending: line('m0', 'm1'), processing: [] });
    first.points.fail('queue.take answers', new UnavailableError('redis', 'the reply was lost'));
    await ground.sweep(first);
    expect(await ground.behind.look(session)).toMatchObject({ pending: line('m1'), processing: line('m0') });
    stranded.release();
    await posting;
    // The client asks again.
    await first.clock.advance(1_000);
    await ground.quiet();
    await finish(first);
    await inOrder('m0', 'm1');
    expect(watch.begun(named('m0'))).toEqual(eachOnce(named('m0')));
  });

  it('[A5] an owner whose lease ran out while it stood still begins no step, whoever has recorded it since', async () => {
    await post('m0');
    const paused = first.points.hold('gate3.before');
    await ground.sweep(first);
    await ground.behind.loseLock(session);
    const started = first.points.hold('gate3.committed');
    paused.release();
    await started.reached;
    first.stall(first.settings.leaseTtlMs);
    await finish(second);
    started.release();
    await ground.quiet();
    await watch.check();
    expect(watch.runs.map(({ epoch }) => epoch)).not.toContain(1);
    await inOrder('m0');
    expect(watch.begun(named('m0'))).toEqual(eachOnce(named('m0')));
  });

  it('[A5] a step that was under way when its owner stood still runs again under its key, and its result is refused', async () => {
    await post('m0');
    const acting = first.points.hold(`step tool:${named('m0')}-a`);
    await ground.sweep(first);
    await acting.reached;
    await ground.behind.loseLock(session);
    first.stall(first.settings.leaseTtlMs);
    await finish(second);
    const before = await watch.events();
    acting.release();
    await ground.quiet();
    expect(await watch.events()).toEqual(before);
    await inOrder('m0');
    expect(watch.begun(named('m0'))).toEqual({ ...eachOnce(named('m0')), [`tool:${named('m0')}-a`]: 2 });
  });

  it('[G4] a second process of the same POD_ID takes no lock that carries its name for its own', async () => {
    await post('m0');
    const paused = first.points.hold('gate3.before');
    await ground.sweep(first);
    const twin = await ground.pod('c', { podId: 'a', notified: false });
    await ground.sweep(twin);
    twin.supervisor.offer(session);
    await ground.quiet();
    expect(twin.keeper.size).toBe(0);
    expect(await ground.behind.look(session)).toMatchObject({ processing: line('m0') });
    const owner = { ...twin.identity, epoch: 1 };
    expect(await twin.queue.take(session, owner)).toEqual({ kind: 'not_owner' });
    expect(await twin.locks.release(session, owner, 'leave')).toBe('not_owner');
    expect(await twin.locks.renew([{ session, owner }])).toEqual([false]);
    paused.release();
    await ground.quiet();
    await finish(first, twin);
    await inOrder('m0');
    expect(watch.begun(named('m0'))).toEqual(eachOnce(named('m0')));
  });

  it('[G4] a process whose session the next one of its POD_ID has taken is refused all that it does under its lease', async () => {
    await post('m0');
    const acting = first.points.hold('step model:1');
    await ground.sweep(first);
    await acting.reached;
    await ground.behind.loseLock(session);
    const twin = await ground.pod('c', { podId: 'a', notified: false });
    const resumed = twin.points.hold('step model:1');
    await ground.sweep(twin);
    expect(resumed.isReached).toBe(true);
    const former = { ...first.identity, epoch: 1 };
    const before = [await ground.behind.look(session), await watch.events()];
    expect(await first.locks.renew([{ session, owner: former }])).toEqual([false]);
    expect(await first.queue.take(session, former)).toEqual({ kind: 'not_owner' });
    const ref = { turnId: named('m0'), generation: 1 };
    expect(await first.queue.complete(session, former, ref, 'completed')).toEqual({ kind: 'not_owner' });
    expect(await first.queue.restore(session, former, [])).toBe('not_allowed');
    expect(await first.locks.release(session, former, 'leave')).toBe('not_owner');
    // What it has done meanwhile is refused by the ledger.
    acting.release();
    await ground.quiet();
    expect([await ground.behind.look(session), await watch.events()]).toEqual(before);
    expect(await ground.behind.isOwner(session, { ...twin.identity, epoch: 2 })).toBe(true);
    resumed.release();
    await ground.quiet();
    await finish(twin);
    await inOrder('m0');
  });

  const TIES = [
    ['[Ax2] after a flush and a refill', () => refill()],
    ['[S2x] after the lock of a living owner was removed', () => ground.behind.loseLock(session)],
  ] as const;

  it.each(TIES)('%s, of two owners of one epoch the first to claim is the only one', async (_, lose) => {
    await post('m0');
    const claiming = first.points.hold('gate3.before');
    await ground.sweep(first);
    expect(await ground.behind.isOwner(session, { ...first.identity, epoch: 1 })).toBe(true);
    await lose();
    const acquiring = second.points.hold('actor.acquiring');
    await ground.sweep(second);
    await acquiring.reached;
    const begun = first.points.hold('step model:1');
    claiming.release();
    await begun.reached;
    acquiring.release();
    await ground.quiet();
    expect(await watch.turnsOf('owner.changed')).toHaveLength(1);
    expect(await watch.turnsOf('turn.resumed')).toEqual([]);
    expect(watch.runs.filter(({ epoch }) => epoch === 1)).toHaveLength(1);
    expect(second.points.passed.filter((name) => name.startsWith('step'))).toEqual([]);
    expect((await ground.behind.look(session)).lock).toBeNull();
    begun.release();
    await ground.quiet();
    await finish(second, first);
    await inOrder('m0');
  });

  /** A flush, and the fill in one step: the line is there again, the lock is not. */
  async function refill(): Promise<void> {
    const { processing, pending } = await ground.behind.look(session);
    await ground.behind.setBack(session, { lock: null, pending: [...processing, ...pending] });
  }
});
