import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { type Ref, type SRef, StaleOwnerError } from '#protocol';
import { childTurnId } from '#family';
import { TurnStage } from '#test-kit';
import type { Intake } from './intake.js';
import type { SpawnRequest } from './spawn.gate.js';

const parent = { account: 'acc', sessionId: 's', turnId: 't', generation: 1 };

describe('gate 2 for a child', () => {
  let stage: TurnStage;
  let intake: Intake;
  let finish: () => void;
  let ended: Promise<unknown>;
  /** The parent runs under epoch 1. */
  beforeEach(async () => {
    stage = await TurnStage.open();
    ({ intake } = stage.pod(async () => undefined));
    await stage.accept();
    const begun = Promise.withResolvers<void>();
    const { promise: held, resolve } = Promise.withResolvers<void>();
    finish = resolve;
    ended = stage.run(async () => {
      begun.resolve();
      await held;
    });
    await begun.promise;
  });
  afterEach(() => stage.close());

  const spawn = async (change: Partial<SpawnRequest> = {}): Promise<SRef> => {
    const request = { parent, epoch: 1, callId: 'call', sessionId: 'kid', content: 'go', ...change };
    return (await intake.spawnChild(request)).child;
  };
  const storyOf = async (sessionId: string): Promise<string[]> =>
    (await stage.ledger.events({ account: 'acc', sessionId }, 0, 100)).map(({ type }) => type);

  it('accepts it under its parent’s path, and tells both sessions', async () => {
    const child = await spawn();
    expect(child).toEqual({ sessionId: 'kid', turnId: childTurnId(parent, 'call'), generation: 1 });
    const { sessionId, turnId, generation }: SRef = parent;
    expect(await stage.row(child.turnId)).toMatchObject({
      ...{ state: 'queued', path: `t/${child.turnId}`, kind: 'user', mode: 'enqueue', initiator: 'ann' },
      parent: { sessionId, turnId, generation },
    });
    expect(await storyOf('kid')).toEqual(['message.accepted']);
    expect((await stage.events()).at(-1)).toMatchObject({
      ...{ type: 'child.spawned', turnId: 't', generation: 1 },
      data: { callId: 'call', child },
    });
  });

  it('finds the child of the same call again, and tells nobody twice', async () => {
    const child = await spawn();
    expect(await spawn()).toEqual(child);
    expect(await storyOf('kid')).toEqual(['message.accepted']);
    expect((await stage.events()).filter(({ type }) => type === 'child.spawned')).toHaveLength(1);
    await expect(spawn({ content: 'something else' })).rejects.toMatchObject({ code: 'turn_mismatch' });
  });

  it('is not kept out by whoever knows the id of the child that is to come', async () => {
    const turnId = childTurnId(parent, 'call');
    const named = { account: 'acc', sessionId: 'kid', turnId, generation: null, reason: null };
    const early = intake.stopTurn({ ...named, by: 'bob', isAdmin: false });
    await expect(early).rejects.toMatchObject({ code: 'turn_mismatch' });
    await spawn();
    expect(await storyOf('kid')).toEqual(['message.accepted']);
  });

  const STALE: [string, Partial<SpawnRequest>][] = [
    ['an older epoch', { epoch: 0 }],
    ['another generation', { parent: { ...parent, generation: 2 } }],
  ];
  it.each(STALE)('refuses an owner of %s', async (_, change) => {
    await expect(spawn(change)).rejects.toThrow(StaleOwnerError);
    expect(await storyOf('kid')).toEqual([]);
  });

  it('refuses a parent that has ended', async () => {
    finish();
    await ended;
    await expect(spawn()).rejects.toThrow(StaleOwnerError);
  });

  it('refuses a parent that is to stop', async () => {
    await stage.stop();
    await expect(spawn()).rejects.toMatchObject({ code: 'turn_stopped', facts: { turnId: 't' } });
    expect(await storyOf('kid')).toEqual([]);
  });

  it('refuses a session that others have opened, its own one included', async () => {
    await stage.ledger.createSession(
      { account: 'acc', sessionId: 'users' },
      { title: null, metadata: null, digest: 'd' },
    );
    for (const sessionId of ['users', 's']) {
      await expect(spawn({ sessionId })).rejects.toMatchObject({ code: 'validation_failed', facts: { sessionId } });
    }
  });

  it('takes several children in one session that this one has opened', async () => {
    await spawn();
    await spawn({ callId: 'other' });
    expect(await storyOf('kid')).toEqual(['message.accepted', 'message.accepted']);
  });

  it('takes none over QUEUE_MAX_PENDING', async () => {
    for (let at = 0; at < 100; at++) await spawn({ callId: `call${at}` });
    await expect(spawn()).rejects.toMatchObject({ code: 'queue_full' });
  });

  it('lets turns stand eight deep, and no deeper', async () => {
    let above: SRef & { account: string } = parent;
    for (let depth = 2; depth <= 8; depth++) {
      const child = await spawn({ parent: above, sessionId: `deep${depth}` });
      await start({ ...child });
      above = { account: 'acc', ...child };
    }
    const tooDeep = spawn({ parent: above, sessionId: 'deep9' });
    await expect(tooDeep).rejects.toMatchObject({ code: 'validation_failed' });
  });

  /** A child runs under epoch 1 of its session. */
  async function start({ sessionId, turnId }: SRef & Ref): Promise<void> {
    const begun = Promise.withResolvers<void>();
    const lease = stage.lease(1);
    Object.assign(lease, { session: { account: 'acc', sessionId } });
    void stage.run(
      async () => {
        begun.resolve();
        await new Promise(() => undefined);
      },
      { lease, turnId },
    );
    await begun.promise;
  }
});
