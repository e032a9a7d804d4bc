import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { UnavailableError } from '#platform';
import type { TurnContext } from './agent.js';
import { TurnStage } from '#test-kit';

const say = async (turn: TurnContext): Promise<void> => {
  await turn.model(async (step) => {
    step.say('hi');
    return {};
  });
};
const mustNotRun = (): Promise<void> => {
  throw new Error('the agent was called');
};
/** An attempt that is cut off before it has recorded anything. */
const dies = async (stage: TurnStage, epoch: number, reason: Error = new Error('leave')): Promise<unknown> => {
  const abort = new AbortController();
  const lease = stage.lease(epoch);
  const hang = async (): Promise<void> => {
    abort.abort(reason);
    await new Promise(() => undefined);
  };
  return stage.run(hang, { lease, signal: abort.signal });
};

describe('gate 3', () => {
  let stage: TurnStage;
  beforeEach(async () => {
    stage = await TurnStage.open();
  });
  afterEach(() => stage.close());

  it('starts a queued turn in one commit that also claims the session', async () => {
    await stage.accept();
    const lease = stage.lease(1);
    expect(await stage.run(say, { lease })).toEqual({ kind: 'ended', state: 'completed' });
    expect(lease.claimed).toBe(true);
    const events = await stage.events();
    expect(events.map(({ type }) => type)).toEqual([
      'message.accepted',
      'owner.changed',
      'turn.started',
      'model.message',
      'turn.completed',
    ]);
    expect(events[2]).toMatchObject({ data: { attempt: 1, podId: 'pod-1', epoch: 1 } });
    expect(stage.live.events.map(({ seq }) => seq)).toEqual([2, 3, 4, 5]);
    expect(stage.steps.passed.filter((name) => name === 'database.committed').length).toBe(4);
  });

  it.each([
    ['a turn that is unknown', { turnId: 'other' }],
    ['a turn of another session', {}],
    ['another generation', { generation: 2 }],
    ['an older generation', { generation: 0 }],
  ])('drops the envelope of %s and writes nothing', async (name, change) => {
    await stage.accept();
    const lease = stage.lease(1);
    if (name.includes('another session')) {
      const elsewhere = { account: 'acc', sessionId: 'elsewhere' };
      await stage.ledger.createSession(elsewhere, { title: null, metadata: null, digest: 'd' });
      Object.assign(lease, { session: elsewhere });
    }
    const ref = { turnId: 't', generation: 1, ...change };
    expect(await stage.runner(mustNotRun).run(lease, ref, new AbortController().signal)).toEqual({ kind: 'dropped' });
    expect(await stage.story()).toEqual([]);
  });

  it('lets the envelope of an ended turn go, and does not run it', async () => {
    await stage.accept();
    await stage.run(say);
    const lease = stage.lease(2);
    expect(await stage.run(mustNotRun, { lease })).toEqual({ kind: 'ended', state: 'completed' });
    expect((await stage.events()).length).toBe(5);
  });

  it('never starts a turn whose stop came before its start', async () => {
    await stage.accept();
    await stage.stop();
    expect(await stage.run(mustNotRun)).toEqual({ kind: 'ended', state: 'stopped' });
    expect(await stage.story()).toEqual(['turn.stopped stop']);
  });

  it('ends a running turn whose stop was requested without the agent, its open calls closed', async () => {
    await stage.accept();
    const hold = stage.steps.hold('tool.checked');
    const abort = new AbortController();
    const first = stage.run(callTool, { signal: abort.signal });
    await hold.reached;
    abort.abort(new Error('leave'));
    await stage.clock.advance(2000);
    await first;
    await stage.stop('t', { by: 'ann', reason: 'enough' });
    expect(await stage.run(mustNotRun, { lease: stage.lease(2) })).toEqual({ kind: 'ended', state: 'stopped' });
    const events = await stage.events();
    expect((await stage.story()).slice(-3)).toEqual([
      'turn.stop_requested',
      'tool.result a interrupted',
      'turn.stopped start',
    ]);
    expect(events.at(-1)?.data).toEqual({ by: 'ann', reason: 'enough', gate: 'start' });
    expect((await stage.row())?.state).toBe('stopped');
  });

  it('leaves a turn alone while one with a lower queueSeq lives, and answers the ledger’s order', async () => {
    await stage.accept('t1');
    await stage.accept('t2');
    await stage.accept('t3');
    expect(await stage.run(mustNotRun, { turnId: 't2' })).toEqual({
      kind: 'behind',
      live: ['t1', 't2', 't3'].map((turnId) => ({ turnId, generation: 1 })),
    });
    expect(await stage.story()).toEqual([]);
  });

  it('refuses a claim whose epoch is not above the newest one', async () => {
    await stage.accept();
    await stage.claim(1);
    const lease = stage.lease(1);
    expect(await stage.run(mustNotRun, { lease })).toEqual({ kind: 'claim_refused' });
    expect(lease.claimed).toBe(false);
    expect(await stage.story()).toEqual([]);
  });

  it('answers stale when a claimed lease has been overtaken', async () => {
    await stage.accept('t1');
    await stage.accept('t2');
    const lease = stage.lease(1);
    await stage.run(say, { lease, turnId: 't1' });
    await stage.claim(2);
    expect(await stage.run(mustNotRun, { lease, turnId: 't2' })).toEqual({ kind: 'stale' });
  });

  it('begins nothing under a lease that is not trusted any more', async () => {
    await stage.accept();
    const lease = stage.lease(1);
    stage.clock.stall(30_000);
    expect(await stage.run(mustNotRun, { lease })).toEqual({ kind: 'stale' });
    expect(await stage.story()).toEqual([]);
  });

  it('recognises its own start when the answer of its commit is lost', async () => {
    await stage.accept();
    stage.steps.fail('database.committed', new Error('lost'));
    const lease = stage.lease(1);
    expect(await stage.run(say, { lease })).toEqual({ kind: 'ended', state: 'completed' });
    expect(lease.claimed).toBe(true);
    expect(await stage.story()).toEqual(['turn.started', 'model.message model:1 hi', 'turn.completed']);
  });

  it('stops a turn whose stop came between its start and the lost answer to it', async () => {
    await stage.accept();
    stage.steps.at('database.committed', () => {
      void stage.stop();
      throw new Error('lost');
    });
    let calls = 0;
    expect(await stage.run(async () => void calls++)).toEqual({ kind: 'ended', state: 'stopped' });
    expect(calls).toBe(0);
    expect(await stage.story()).toEqual(['turn.started', 'turn.stop_requested', 'turn.stopped running']);
  });

  it('calls no agent when the lease is lost right after the start', async () => {
    await stage.accept();
    const hold = stage.steps.hold('gate3.committed');
    const abort = new AbortController();
    let calls = 0;
    const agent = async (): Promise<void> => void calls++;
    const run = stage.run(agent, { signal: abort.signal });
    await hold.reached;
    abort.abort(new Error('leave'));
    hold.release();
    expect(await run).toEqual({ kind: 'yielded' });
    expect(calls).toBe(0);
  });

  it('counts a claim without a clear answer as refused', async () => {
    await stage.accept();
    stage.database.down = true;
    expect(await stage.run(mustNotRun)).toEqual({ kind: 'claim_refused' });
  });

  it('waits through an outage when the session is already claimed', async () => {
    await stage.accept('t1');
    await stage.accept('t2');
    const lease = stage.lease(1);
    await stage.run(say, { lease, turnId: 't1' });
    stage.database.down = true;
    const run = stage.run(say, { lease, turnId: 't2' });
    await stage.clock.advance(3000);
    stage.database.down = false;
    await stage.clock.advance(3000);
    expect(await run).toEqual({ kind: 'ended', state: 'completed' });
  });

  it('takes a running turn over: says which step is void, and reads what was recorded up to the claim', async () => {
    await stage.accept();
    await dies(stage, 1);
    expect(await stage.run(say, { lease: stage.lease(2) })).toEqual({ kind: 'ended', state: 'completed' });
    expect(await stage.story()).toEqual([
      'turn.started',
      'turn.yielded lease',
      'turn.resumed model:1',
      'model.message model:1 hi',
      'turn.completed',
    ]);
    expect((await stage.row())?.attempts).toBe(2);
  });

  it('does not miss what the earlier owner recorded while the takeover was reading', async () => {
    await stage.accept();
    const old = stage.lease(1);
    const oldStep = Promise.withResolvers<void>();
    const first = stage.run(
      async (turn) => {
        await turn.model(async () => {
          await oldStep.promise;
          return {};
        });
        await turn.model(() => new Promise(() => undefined));
      },
      { lease: old },
    );
    await stage.clock.advance(0);
    // Held after reading the record, before the transaction that claims: the old owner still may write.
    stage.steps.at('gate3.before', () => undefined);
    const hold = stage.steps.hold('gate3.before');
    const ran: string[] = [];
    const second = stage.run(
      async (turn) => {
        for (const name of ['one', 'two']) {
          await turn.model(async () => {
            ran.push(name);
            return {};
          });
        }
      },
      { lease: stage.lease(2) },
    );
    await hold.reached;
    oldStep.resolve();
    await stage.clock.advance(0);
    hold.release();
    expect(await second).toEqual({ kind: 'ended', state: 'completed' });
    expect(ran).toEqual(['two']);
    stage.clock.stall(30_000);
    void first;
  });

  it('reads again, outside the transaction, when much was added meanwhile', async () => {
    await stage.accept();
    await dies(stage, 1);
    stage.steps.at('gate3.before', () => undefined);
    const hold = stage.steps.hold('gate3.before');
    stage.steps.passed.length = 0;
    const run = stage.run(say, { lease: stage.lease(2) });
    await hold.reached;
    for (let added = 0; added < 201; added++) await stage.accept(`later-${added}`);
    hold.release();
    expect(await run).toEqual({ kind: 'ended', state: 'completed' });
    expect(stage.steps.passed.filter((name) => name === 'gate3.before')).toHaveLength(3);
  });

  it('fails a turn as poisoned after TURN_MAX_ATTEMPTS attempts without a step', async () => {
    await stage.accept();
    for (const epoch of [1, 2, 3]) expect(await dies(stage, epoch)).toEqual({ kind: 'yielded' });
    expect(await stage.run(mustNotRun, { lease: stage.lease(4) })).toEqual({ kind: 'ended', state: 'failed' });
    expect((await stage.story()).at(-1)).toBe('turn.failed poisoned');
    expect((await stage.row())?.error).toMatchObject({ code: 'poisoned' });
  });

  it('closes the open calls of a poisoned turn', async () => {
    await stage.accept();
    const cutOff = async (epoch: number): Promise<void> => {
      const hold = stage.steps.hold('tool.checked');
      const abort = new AbortController();
      const run = stage.run(callRepeatable, { lease: stage.lease(epoch), signal: abort.signal });
      await hold.reached;
      abort.abort(new Error('leave'));
      await stage.clock.advance(1000);
      await run;
    };
    for (const epoch of [1, 2, 3, 4]) await cutOff(epoch);
    expect(await stage.run(mustNotRun, { lease: stage.lease(5) })).toEqual({ kind: 'ended', state: 'failed' });
    expect((await stage.story()).slice(-2)).toEqual(['tool.result a interrupted', 'turn.failed poisoned']);
  });

  it('looks at a stop before it calls a turn poisoned', async () => {
    await stage.accept();
    for (const epoch of [1, 2, 3]) await dies(stage, epoch);
    await stage.stop();
    expect(await stage.run(mustNotRun, { lease: stage.lease(4) })).toEqual({ kind: 'ended', state: 'stopped' });
  });

  it('does not count attempts that an outage of Redis has ended', async () => {
    await stage.accept();
    for (const epoch of [1, 2, 3, 4, 5]) await dies(stage, epoch, new UnavailableError('redis', 'away'));
    expect(await stage.run(say, { lease: stage.lease(6) })).toEqual({ kind: 'ended', state: 'completed' });
  });
});

function callTool(turn: TurnContext): Promise<void> {
  return callOne(turn, false);
}

function callRepeatable(turn: TurnContext): Promise<void> {
  return callOne(turn, true);
}

async function callOne(turn: TurnContext, isRepeatable: boolean): Promise<void> {
  const { toolCalls } = await turn.model(async () => ({ toolCalls: [{ callId: 'a', name: 'look', input: {} }] }));
  await turn.tools(toolCalls, new Map([['look', { repeatable: () => isRepeatable, run: async () => 'seen' }]]));
}
