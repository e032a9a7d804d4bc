import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { TurnStage } from '#test-kit';
import type { PostedMessage } from './arrival.js';
import type { Intake } from './intake.js';

describe('a message that meets the tombstone of its turn', () => {
  let stage: TurnStage;
  let intake: Intake;
  beforeEach(async () => {
    stage = await TurnStage.open();
    ({ intake } = stage.pod(async () => undefined));
    const named = { ...stage.session, turnId: 't', generation: null, reason: null };
    await intake.stopTurn({ ...named, by: 'ann', isAdmin: false });
  });
  afterEach(() => stage.close());

  const post = (change: Partial<PostedMessage> = {}): Promise<unknown> =>
    intake.postMessage({
      ...{ ...stage.session, turnId: 't', initiator: 'ann', content: 'hello', mode: 'enqueue', metadata: null },
      ...change,
    } as PostedMessage);

  it('is refused, and the ledger says so once, however often it comes', async () => {
    for (const change of [{}, {}, { content: 'hello again' }]) {
      await expect(post(change)).rejects.toMatchObject({
        code: 'turn_stopped',
        facts: { turnId: 't', generation: 1, state: 'stopped' },
      });
    }
    expect(await stage.story()).toEqual(['turn.stopped stop', 'message.refused']);
    expect((await stage.events()).at(-1)).toMatchObject({
      ...{ turnId: 't', generation: 1 },
      data: { code: 'turn_stopped', initiator: 'ann' },
    });
    expect(stage.live.events.map(({ type }) => type)).toEqual(['turn.stopped', 'message.refused']);
  });

  it('is a mismatch when another user sends it, and nothing is noted', async () => {
    await expect(post({ initiator: 'eve' })).rejects.toMatchObject({ code: 'turn_mismatch' });
    expect(await stage.story()).toEqual(['turn.stopped stop']);
  });

  it('is refused whoever sends it where an admin has stopped the turn', async () => {
    const named = { ...stage.session, turnId: 'u', generation: null, reason: null };
    await intake.stopTurn({ ...named, by: 'root', isAdmin: true });
    await expect(post({ turnId: 'u', initiator: 'eve' })).rejects.toMatchObject({ code: 'turn_stopped' });
    expect((await stage.events()).at(-1)).toMatchObject({ type: 'message.refused', data: { initiator: 'eve' } });
  });

  it('is told once when many come at once', async () => {
    const posts = await Promise.allSettled(Array.from({ length: 5 }, () => post()));
    expect(posts.every(({ status }) => status === 'rejected')).toBe(true);
    expect(await stage.story()).toEqual(['turn.stopped stop', 'message.refused']);
  });

  it('says nothing of what it was', async () => {
    await expect(post({ content: 'a secret' })).rejects.toThrow();
    expect(JSON.stringify(await stage.events())).not.toContain('secret');
  });

  it('is a mismatch in another session, where nothing is noted', async () => {
    await expect(post({ sessionId: 'other' })).rejects.toMatchObject({ code: 'turn_mismatch' });
    expect(await stage.story()).toEqual(['turn.stopped stop']);
    expect(await stage.ledger.events({ account: 'acc', sessionId: 'other' }, 0, 10)).toEqual([]);
  });

  it('is accepted in another account', async () => {
    expect(await post({ account: 'bob' })).toMatchObject({ accepted: { turnId: 't', generation: 1 }, replayed: false });
    expect(await stage.story()).toEqual(['turn.stopped stop']);
  });

  it('leaves the turns that follow alone', async () => {
    await expect(post()).rejects.toMatchObject({ code: 'turn_stopped' });
    await post({ turnId: 'u' });
    expect(await stage.run(async () => undefined, { turnId: 'u' })).toEqual({ kind: 'ended', state: 'completed' });
  });
});
