import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Drain } from '#platform';
import { firstTry, TurnStage } from '#test-kit';
import type { Tool, Toolbox, TurnContext } from './agent.js';

const CHILD = { account: 'acc', sessionId: 'child' };

const toolbox: Toolbox = new Map([
  ['spawn', { repeatable: () => true, run: (_, call) => call.spawn({ sessionId: 'child', content: 'work' }) }],
]);

/** Spawns one child, waits for it, and says what it was told. */
async function parent(turn: TurnContext, tools = toolbox): Promise<void> {
  const { toolCalls } = await turn.model(async () => ({ toolCalls: [{ callId: 'c1', name: 'spawn', input: null }] }));
  await turn.tools(toolCalls, tools);
  await turn.children();
  await turn.model(async ({ say }) => {
    const last = (await turn.history()).at(-1);
    say(`${last?.role}: ${last?.content}`);
    return {};
  });
}

describe('children', () => {
  let stage: TurnStage;

  beforeEach(async () => {
    stage = await TurnStage.open();
    await stage.accept();
  });
  afterEach(() => stage.close());

  const childId = async (): Promise<string> => {
    for (;;) {
      const spawned = (await stage.events()).find((event) => event.type === 'child.spawned');
      if (spawned?.type === 'child.spawned') return spawned.data.child.turnId;
      await stage.clock.advance(1);
    }
  };
  const runChild = async (agent: (turn: TurnContext) => Promise<void>): Promise<void> => {
    const turnId = await childId();
    await stage.runner(agent).run(stage.lease(1, 'other', CHILD), firstTry(turnId), new AbortController().signal);
  };
  const words = async (turn: TurnContext): Promise<void> => {
    await turn.model(async ({ say }) => {
      say('found it');
      return {};
    });
  };

  it('report to the parent that waits for them, which takes the report in and goes on', async () => {
    const runner = stage.runner(parent);
    const run = runner.run(stage.lease(1), firstTry('t'), new AbortController().signal);
    await runChild(words);
    runner.woken(stage.session);
    expect(await run).toEqual({ kind: 'ended', state: 'completed' });
    const turnId = await childId();
    expect((await stage.story()).slice(-5)).toEqual([
      'tool.result c1 ok',
      'child.reported',
      'turn.absorbed',
      `model.message model:2 user: Sub-agent child/${turnId} completed.\nfound it`,
      'turn.completed',
    ]);
    expect(await stage.row(`r~${turnId.slice(2)}`)).toMatchObject({ kind: 'report', absorbedBy: firstTry('t') });
  });

  it('are found by the look of a sweep when no notice has told of the report', async () => {
    const runner = stage.runner(parent);
    const run = runner.run(stage.lease(1), firstTry('t'), new AbortController().signal);
    await runChild(() => Promise.reject(new Error('sick')));
    await runner.look();
    expect(await run).toEqual({ kind: 'ended', state: 'completed' });
    expect(await stage.story()).toContain(
      `model.message model:2 user: Sub-agent child/${await childId()} failed.\nsick`,
    );
  });

  it.each([
    ['the answer to the spawn was lost', () => stage.steps.fail('database.committed', new Error('lost'))],
    ['the ledger was away', () => (stage.database.down = true)],
  ])('are waited for also when %s', async (_, fail) => {
    const { run: born, ...spawn } = toolbox.get('spawn')!;
    const spawning = Promise.withResolvers<void>();
    const run: Tool['run'] = async (input, call) => {
      fail();
      spawning.resolve();
      return born(input, call);
    };
    const runner = stage.runner((turn) => parent(turn, new Map([['spawn', { ...spawn, run }]])));
    const attempt = runner.run(stage.lease(1), firstTry('t'), new AbortController().signal);
    await spawning.promise;
    await stage.clock.advance(1000);
    stage.database.down = false;
    while (!(await stage.story()).includes('tool.result c1 ok')) await stage.clock.advance(1);
    await runChild(words);
    await stage.clock.advance(5000);
    expect((await stage.story()).slice(-2)).toEqual(['tool.result c1 ok', 'child.reported']);
    await runner.look();
    expect(await attempt).toEqual({ kind: 'ended', state: 'completed' });
    expect((await stage.story()).filter((line) => line === 'child.spawned')).toHaveLength(1);
  });

  it('do not keep a draining pod: the parent leaves, and waits on under the next owner', async () => {
    const runner = stage.runner(parent);
    const run = runner.run(stage.lease(1), firstTry('t'), new AbortController().signal);
    await childId();
    await stage.clock.advance(10);
    stage.drain.start();
    runner.woken(stage.session);
    expect(await run).toEqual({ kind: 'yielded' });
    await stage
      .runner(words, new Drain())
      .run(stage.lease(1, 'other', CHILD), firstTry(await childId()), new AbortController().signal);
    const next = stage.runner(parent, new Drain());
    expect(await next.run(stage.lease(2), firstTry('t'), new AbortController().signal)).toEqual({
      kind: 'ended',
      state: 'completed',
    });
    expect((await stage.story()).filter((line) => line === 'child.spawned')).toHaveLength(1);
  });

  it('are refused as the error of their call, and the parent goes on', async () => {
    await stage.accept('theirs', 'hello', { session: CHILD });
    const run = await stage.run(parent);
    expect(run).toEqual({ kind: 'ended', state: 'completed' });
    expect(await stage.story()).toContain('tool.result c1 error');
  });

  it('of a parent that did not wait run their report by itself', async () => {
    const run = stage.runner(async (turn) => {
      const { toolCalls } = await turn.model(async () => ({
        toolCalls: [{ callId: 'c1', name: 'spawn', input: null }],
      }));
      await turn.tools(toolCalls, toolbox);
    });
    await run.run(stage.lease(1), firstTry('t'), new AbortController().signal);
    await runChild(words);
    const report = `r~${(await childId()).slice(2)}`;
    const kinds: string[] = [];
    const outcome = await stage
      .runner(async ({ kind }) => void kinds.push(kind))
      .run(stage.lease(2), firstTry(report), new AbortController().signal);
    expect([outcome, kinds]).toEqual([{ kind: 'ended', state: 'completed' }, ['report']]);
  });
});
