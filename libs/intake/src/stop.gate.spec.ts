import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { StopAnswer } from '#protocol';
import { TurnStage } from '#test-kit';
import type { Intake } from './intake.js';
import type { StopRequest } from './stop.gate.js';

const mustNotRun = (): Promise<void> => {
  throw new Error('the agent was called');
};

describe('gate 1', () => {
  let stage: TurnStage;
  let intake: Intake;
  beforeEach(async () => {
    stage = await TurnStage.open();
    ({ intake } = stage.pod(mustNotRun));
  });
  afterEach(() => stage.close());

  const stop = (change: Partial<StopRequest> = {}): Promise<StopAnswer> =>
    intake.stopTurn({
      ...{ ...stage.session, turnId: 't', generation: null, reason: null },
      ...{ by: 'ann', isAdmin: false, ...change },
    });
  const refused = (change: Partial<StopRequest>): Promise<unknown> =>
    stop(change).then(
      () => 'nothing',
      (error: unknown) => error,
    );

  const OTHERS: [string, Partial<StopRequest>, string][] = [
    ['a turn of another session', { sessionId: 'other' }, 'turn_mismatch'],
    ['another user’s turn', { by: 'eve' }, 'turn_mismatch'],
    [
      'another user’s turn in another session, by an admin',
      { by: 'root', isAdmin: true, sessionId: 'other' },
      'turn_mismatch',
    ],
    ['a generation that is not there yet', { generation: 2 }, 'stale_generation'],
    ['a generation that never was', { generation: 7 }, 'stale_generation'],
  ];
  it.each(OTHERS)('refuses to stop %s, and writes nothing', async (_, change, code) => {
    await stage.accept();
    expect(await refused(change)).toMatchObject({ code, facts: { turnId: 't' } });
    expect((await stage.row())?.state).toBe('queued');
    expect(await stage.story()).toEqual([]);
    expect(stage.live.events).toEqual([]);
  });

  it('tells who names a stale generation which one is present, and in what state', async () => {
    await stage.accept();
    await stop();
    expect(await refused({ generation: 3 })).toMatchObject({ facts: { generation: 1, state: 'stopped' } });
  });

  it('refuses to stop a later generation of a turn that is unborn', async () => {
    expect(await refused({ generation: 2 })).toMatchObject({ code: 'stale_generation' });
    expect(await stage.row()).toBeNull();
    expect(await stop({ generation: 1 })).toMatchObject({ state: 'stopped', generation: 1 });
  });

  it('lets an admin stop for another user, and the ledger says who and why', async () => {
    await stage.accept();
    const request = { by: 'root', isAdmin: true, reason: 'too long' };
    expect(await stop(request)).toEqual({ ...answer('stopped'), already: false });
    expect((await stage.events()).at(-1)).toMatchObject({
      ...{ type: 'turn.stopped', turnId: 't', generation: 1 },
      data: { by: 'root', reason: 'too long', gate: 'stop' },
    });
    expect((await stage.row())?.stop).toMatchObject({ by: 'root', reason: 'too long' });
    expect(stage.live.events.map(({ type }) => type)).toEqual(['turn.stopped']);
  });

  it.each(['an unborn turn', 'a queued turn', 'an ended turn'])('said again of %s changes nothing', async (what) => {
    if (what !== 'an unborn turn') await stage.accept();
    if (what === 'an ended turn') await stage.run(async () => undefined);
    await stop();
    const [row, events] = [await stage.row(), await stage.events()];
    const state = what === 'an ended turn' ? 'completed' : 'stopped';
    for (const by of ['ann', 'ann'])
      expect(await stop({ by, reason: 'again' })).toEqual({ ...answer(state), already: true });
    expect(await stage.row()).toEqual(row);
    expect(await stage.events()).toEqual(events);
  });

  it('said again of a running turn leaves the first one’s word', async () => {
    await stage.accept();
    const begun = Promise.withResolvers<void>();
    void stage.run(async () => {
      begun.resolve();
      await new Promise(() => undefined);
    });
    await begun.promise;
    expect(await stop({ reason: 'first' })).toEqual({ ...answer('stop_requested'), already: false });
    expect(await stop({ reason: 'second' })).toEqual({ ...answer('stop_requested'), already: true });
    expect((await stage.row())?.stop).toMatchObject({ reason: 'first' });
    expect(await stage.story()).toEqual(['turn.started', 'turn.stop_requested']);
  });

  it('of an unborn turn is known in its own account only', async () => {
    await stage.accept();
    expect(await stop({ account: 'bob', by: 'eve' })).toEqual({ ...answer('stopped'), already: false });
    expect((await stage.row())?.state).toBe('queued');
    expect(await stage.story()).toEqual([]);
    expect(await stage.turns.find(stage.database, 'bob', 't')).toMatchObject({ state: 'stopped', acceptedSeq: null });
    expect(await stage.run(async () => undefined)).toEqual({ kind: 'ended', state: 'completed' });
  });

  it('of a queued turn lets the next one run', async () => {
    await stage.accept('t1');
    await stage.accept('t2');
    await stop({ turnId: 't1' });
    expect(await stage.run(mustNotRun, { turnId: 't1' })).toEqual({ kind: 'ended', state: 'stopped' });
    expect(await stage.run(async () => undefined, { turnId: 't2' })).toEqual({ kind: 'ended', state: 'completed' });
  });

  it('leaves a stopped turn its place in the list, and a tombstone has none', async () => {
    await stage.accept('t1');
    await stage.accept('t2');
    await stop({ turnId: 't1' });
    await stop({ turnId: 't1', generation: 2 });
    await stop({ turnId: 'unborn' });
    const listed = await stage.turns.list(stage.session, 0, 10, null);
    expect(listed.map(({ turnId, generation, state }) => [turnId, generation, state])).toEqual([
      ['t1', 2, 'stopped'],
      ['t2', 1, 'queued'],
    ]);
  });

  it('whose COMMIT was answered by nobody is told once', async () => {
    await stage.accept();
    stage.steps.fail('database.committed', lost());
    expect(await stop()).toEqual({ ...answer('stopped'), already: false });
    expect(await stage.story()).toEqual(['turn.stopped stop']);
  });

  function answer(state: StopAnswer['state']): Omit<StopAnswer, 'already'> {
    return { sessionId: 's', turnId: 't', generation: 1, state };
  }
});

/** What a driver says when the connection ends under a statement. */
function lost(): Error {
  return Object.assign(new Error('the connection was lost'), { code: 'PROTOCOL_CONNECTION_LOST' });
}
