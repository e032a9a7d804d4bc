import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { TurnStage } from '#test-kit';
import type { Intake } from './intake.js';
import type { RetryRequest } from './retry.gate.js';

const done = async (): Promise<void> => undefined;

describe('a retry', () => {
  let stage: TurnStage;
  let intake: Intake;
  beforeEach(async () => {
    stage = await TurnStage.open();
    ({ intake } = stage.pod(done));
  });
  afterEach(() => stage.close());

  const retry = (change: Partial<RetryRequest> = {}) =>
    intake.retryTurn({ ...stage.session, turnId: 't', generation: 1, by: 'ann', isAdmin: false, ...change });
  const stop = (turnId = 't') =>
    intake.stopTurn({ ...stage.session, turnId, generation: null, reason: null, by: 'ann', isAdmin: false });

  const OTHERS: [string, Partial<RetryRequest>, string][] = [
    ['a turn that nobody has heard of', { turnId: 'unknown' }, 'not_found'],
    ['a turn of another account', { account: 'bob' }, 'not_found'],
    ['a turn of another session', { sessionId: 'other' }, 'turn_mismatch'],
    ['another user’s turn', { by: 'eve' }, 'turn_mismatch'],
    ['a generation that is not there yet', { generation: 2 }, 'stale_generation'],
    ['a generation that never was', { generation: 7 }, 'stale_generation'],
  ];
  it.each(OTHERS)('of %s is refused, and nothing is written', async (_, change, code) => {
    await stage.accept();
    await stop();
    const [row, events] = [await stage.row(), await stage.events()];
    await expect(retry(change)).rejects.toMatchObject({ code });
    expect(await stage.row()).toEqual(row);
    expect(await stage.events()).toEqual(events);
  });

  it('by an admin is told as the admin’s', async () => {
    await stage.accept();
    await stop();
    await retry({ by: 'root', isAdmin: true });
    expect((await stage.events()).at(-1)).toMatchObject({ type: 'turn.queued', data: { retryOf: 1, by: 'root' } });
    expect((await stage.row())?.initiator).toBe('ann');
  });

  it('of a turn that has not ended is refused, and tells its state', async () => {
    await stage.accept();
    await expect(retry()).rejects.toMatchObject({ code: 'turn_ended', facts: { state: 'queued', generation: 1 } });
    const begun = Promise.withResolvers<void>();
    void stage.run(async () => {
      begun.resolve();
      await new Promise(() => undefined);
    });
    await begun.promise;
    await expect(retry()).rejects.toMatchObject({ code: 'turn_ended', facts: { state: 'running' } });
    await stop();
    await expect(retry()).rejects.toMatchObject({ code: 'turn_ended', facts: { state: 'stop_requested' } });
  });

  it('begins with a clean slate, at the end of the line', async () => {
    await stage.accept('t');
    await stage.accept('u');
    await stage.run(done);
    const { accepted } = await retry();
    const row = await stage.row();
    expect(accepted).toEqual({ sessionId: 's', turnId: 't', generation: 2, state: 'queued', seq: row!.queueSeq });
    expect(row).toMatchObject({
      state: 'queued',
      generation: 2,
      attempts: 0,
      stop: null,
      error: null,
      startedAtMs: null,
    });
    const listed = await stage.turns.list(stage.session, 0, 10, null);
    expect(listed.map(({ turnId }) => turnId)).toEqual(['u', 't']);
    expect(row!.acceptedSeq).toBe(1);
  });

  it('is refused while the session is full, and its generation stays', async () => {
    await stage.accept();
    await stop();
    for (let at = 0; at < 100; at++) await stage.accept(`m${at}`);
    await expect(retry()).rejects.toMatchObject({ code: 'queue_full' });
    expect((await stage.row())?.generation).toBe(1);
  });

  it('of a tombstone is refused', async () => {
    await stop();
    await expect(retry()).rejects.toMatchObject({ code: 'turn_stopped', facts: { generation: 1, state: 'stopped' } });
  });

  it('lets the envelope of the generation before go', async () => {
    await stage.accept();
    await stop();
    await retry();
    expect(await stage.run(done)).toEqual({ kind: 'dropped' });
    expect((await stage.row())?.state).toBe('queued');
  });
});
