import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { Event, ModelMessage, RunOutcome } from '#protocol';
import { Drain } from '#platform';
import { firstTry, modelInputFaults, TurnStage } from '#test-kit';
import type { ModelStep, Tool, Toolbox, TurnContext } from './agent.js';
import type { TurnRunner } from './turn-runner.js';

type Work = (turn: TurnContext) => Promise<void>;

const STOPPED: RunOutcome = { kind: 'ended', state: 'stopped' };
const STOP_TOOL_WAIT_MS = 5000;

/** A stop of a turn that is at work: what it leaves behind is what the next turn's model reads. */
describe('a stop', () => {
  let stage: TurnStage;
  let runner: TurnRunner;
  let run: Promise<RunOutcome>;
  let abort: AbortController;

  beforeEach(async () => {
    stage = await TurnStage.open();
    abort = new AbortController();
    await stage.accept();
  });
  afterEach(() => stage.close());

  /** Lets the turn work until it does not go on by itself. */
  const begin = async (work: Work): Promise<void> => {
    runner = stage.runner(work);
    run = runner.run(stage.lease(1), firstTry('t'), abort.signal);
    await stage.clock.advance(100);
  };
  const stop = async (): Promise<void> => {
    await stage.stop();
    await runner.stopRequested('acc', firstTry('t'));
    await stage.clock.advance(0);
  };
  const said = async (): Promise<unknown[]> =>
    (await stage.events()).flatMap((event) => (event.type === 'model.message' ? [event.data] : []));
  const results = async (): Promise<string[]> => (await stage.story()).filter((line) => line.startsWith('tool.result'));
  const ends = async (): Promise<Event[]> =>
    (await stage.events()).filter(({ type }) => /^turn\.(stopped|completed|failed)$/.test(type));

  /** The turn has ended as stopped, once and for good, and what it leaves is valid for the next turn's model. */
  const leavesValidInput = async (): Promise<readonly ModelMessage[]> => {
    const before = await stage.events();
    expect(before.at(-1)).toMatchObject({ type: 'turn.stopped', turnId: 't' });
    await stage.clock.advance(60_000);
    expect(await stage.events()).toEqual(before);
    expect(await ends()).toHaveLength(1);
    expect(stage.clock.pending).toBe(0);
    await stage.accept('next', 'and now?');
    let input: readonly ModelMessage[] = [];
    const read: Work = async (turn) => {
      await turn.model(async () => {
        input = await turn.history();
        return {};
      });
    };
    expect(await stage.runner(read, new Drain()).run(stage.lease(9), firstTry('next'), never())).toMatchObject({
      state: 'completed',
    });
    expect(modelInputFaults(input)).toEqual([]);
    expect(input.at(-1)).toEqual({ role: 'user', content: 'and now?' });
    return input;
  };

  const streaming =
    (...pieces: string[]): Work =>
    async (turn) => {
      await turn.model(async (step) => {
        for (const piece of pieces) {
          step.say(piece);
          await stage.clock.sleep(10, step.signal);
        }
        return endless(step);
      });
    };
  const endless = async (step: ModelStep): Promise<never> => {
    await new Promise((_, reject) => step.signal.addEventListener('abort', () => reject(step.signal.reason as Error)));
    throw new Error('unreachable');
  };

  describe('of a reply that streams', () => {
    it('keeps what it has said, marked as interrupted', async () => {
      await begin(streaming('Hello ', 'wor'));
      await stop();
      expect(await run).toEqual(STOPPED);
      expect(await said()).toEqual([
        { step: 'model:1', attempt: 1, text: 'Hello wor', toolCalls: [], finish: 'interrupted' },
      ]);
      expect((await leavesValidInput()).slice(1, 2)).toEqual([{ role: 'assistant', content: 'Hello wor' }]);
    });

    it('keeps it whole when pieces of it were stored before', async () => {
      await begin(streaming('Hello ', 'world'));
      await stage.clock.advance(1000);
      await stop();
      expect(await run).toEqual(STOPPED);
      expect(await said()).toMatchObject([{ text: 'Hello world', finish: 'interrupted' }]);
      await leavesValidInput();
    });

    it('leaves out the half of a character', async () => {
      await begin(streaming('Hello \ud83d'));
      await stop();
      expect(await run).toEqual(STOPPED);
      expect(await said()).toMatchObject([{ text: 'Hello ', finish: 'interrupted' }]);
      await leavesValidInput();
    });

    it.each([
      ['nothing', []],
      ['half a character', ['\ud83d']],
    ])('records no message when it has said %s', async (_, pieces) => {
      await begin(streaming(...pieces));
      await stop();
      expect(await run).toEqual(STOPPED);
      expect(await said()).toEqual([]);
      expect((await leavesValidInput()).map(({ role }) => role)).toEqual(['user', 'user']);
    });

    it('ends the pause before another try of the model', async () => {
      const tries: number[] = [];
      await begin(async (turn) => {
        await turn.model(async (step) => {
          for (let pauseMs = 50; ; pauseMs *= 2) {
            tries.push(pauseMs);
            await stage.clock.sleep(pauseMs, step.signal);
          }
        });
      });
      const before = [...tries];
      await stop();
      expect(await run).toEqual(STOPPED);
      expect(await said()).toEqual([]);
      await leavesValidInput();
      expect(tries).toEqual(before);
    });
  });

  describe('of tools', () => {
    /** Calls tools that heed the signal, are deaf until the test lets them return, or return at once. */
    const calling =
      (...kinds: ('heeds' | 'deaf' | 'quick')[]): Work =>
      async (turn) => {
        const calls = kinds.map((name, at) => ({ callId: `${name}${at + 1}`, name, input: {} }));
        const { toolCalls } = await turn.model(async () => ({ toolCalls: calls }));
        await turn.tools(toolCalls, toolbox);
        await turn.model(async () => ({}));
      };
    const late = Promise.withResolvers<string>();
    const toolbox = new Map<string, Tool>([
      ['heeds', { repeatable: () => false, run: (_, { signal }) => stage.clock.sleep(60_000, signal) }],
      ['deaf', { repeatable: () => false, run: () => late.promise }],
      ['quick', { repeatable: () => false, run: () => Promise.resolve('seen') }],
    ]);

    it('aborts the one that runs, at once', async () => {
      await begin(calling('heeds'));
      await stop();
      expect(await run).toEqual(STOPPED);
      expect(await results()).toEqual(['tool.result heeds1 interrupted']);
      await leavesValidInput();
    });

    it('keeps the result that is there and closes the calls of the other two', async () => {
      await begin(calling('heeds', 'quick', 'heeds'));
      await stop();
      expect(await run).toEqual(STOPPED);
      expect(await results()).toEqual([
        'tool.result quick2 ok',
        'tool.result heeds1 interrupted',
        'tool.result heeds3 interrupted',
      ]);
      const input = await leavesValidInput();
      expect(input.filter(({ role }) => role === 'tool').map(({ content }) => content.split(':')[0])).toEqual([
        'interrupted',
        'seen',
        'interrupted',
      ]);
    });

    it('waits for a deaf one for a bounded time; what it returns afterwards is nobody’s business', async () => {
      await begin(calling('deaf', 'heeds'));
      await stop();
      await stage.clock.advance(STOP_TOOL_WAIT_MS - 1);
      expect((await stage.row())?.state).toBe('stop_requested');
      await stage.clock.advance(1);
      expect(await run).toEqual(STOPPED);
      const before = await stage.story();
      expect(before.slice(-3)).toEqual([
        'tool.result heeds2 interrupted',
        'tool.result deaf1 interrupted',
        'turn.stopped running',
      ]);
      late.resolve('too late');
      await stage.clock.advance(0);
      expect(await stage.story()).toEqual(before);
      await leavesValidInput();
    });

    it('that the reply has issued and nobody has begun closes their calls', async () => {
      let begun = 0;
      await begin(async (turn) => {
        const { toolCalls } = await turn.model(async () => ({ toolCalls: [{ callId: 'c', name: 'count', input: 1 }] }));
        await stage.clock.sleep(1000);
        const count = { repeatable: () => true, run: async () => ++begun };
        await turn.tools(toolCalls, new Map([['count', count]]));
      });
      await stop();
      await stage.clock.advance(1000);
      expect(await run).toEqual(STOPPED);
      expect(await results()).toEqual(['tool.result c interrupted']);
      expect(begun).toBe(0);
      await leavesValidInput();
    });

    it.each(['before', 'after'])('ends the turn as stopped when the pod began to drain %s it', async (order) => {
      await begin(calling('heeds', 'quick'));
      if (order === 'before') stage.drain.start();
      await stop();
      if (order === 'after') stage.drain.start();
      expect(await run).toEqual(STOPPED);
      expect(await stage.story()).not.toContain('turn.yielded drain');
      await leavesValidInput();
    });
  });

  describe('while the pod drains', () => {
    it('that comes when the turn has been left is carried out by the next owner, who begins nothing', async () => {
      const yielding = stage.steps.hold('yield.before');
      const said2: string[] = [];
      const twoSteps: Work = async (turn) => {
        for (const text of ['one', 'two']) {
          await turn.model(async ({ say, key }) => {
            said2.push(key);
            say(text);
            stage.drain.start();
            return {};
          });
        }
      };
      await begin(twoSteps);
      await yielding.reached;
      await stop();
      yielding.release();
      expect(await run).toEqual({ kind: 'yielded' });
      const next = stage.runner(twoSteps, new Drain());
      expect(await next.run(stage.lease(2), firstTry('t'), never())).toEqual(STOPPED);
      expect((await stage.story()).slice(-2)).toEqual(['turn.yielded drain', 'turn.stopped start']);
      expect(said2).toEqual(['model:1']);
      await leavesValidInput();
    });

    it('is not lost when the pod must leave before its tools have returned', async () => {
      const deaf: Toolbox = new Map([['deaf', { repeatable: () => true, run: () => new Promise(() => undefined) }]]);
      let attempts = 0;
      const call: Work = async (turn) => {
        attempts++;
        const { toolCalls } = await turn.model(async () => ({ toolCalls: [{ callId: 'd', name: 'deaf', input: 1 }] }));
        await turn.tools(toolCalls, deaf);
      };
      await begin(call);
      await stop();
      stage.drain.start();
      abort.abort(new Error('the pod must leave'));
      await stage.clock.advance(2000);
      expect(await run).toEqual({ kind: 'yielded' });
      expect((await stage.row())?.state).toBe('stop_requested');
      const next = stage.runner(call, new Drain());
      expect(await next.run(stage.lease(2), firstTry('t'), never())).toEqual(STOPPED);
      expect((await stage.story()).slice(-2)).toEqual(['tool.result d interrupted', 'turn.stopped start']);
      expect(attempts).toBe(1);
      await leavesValidInput();
    });

    it('is not made of the drain: a turn that is left goes on', async () => {
      const work: Work = async (turn) => {
        await turn.model(async () => {
          stage.drain.start();
          return {};
        });
        await turn.model(async () => ({}));
      };
      await begin(work);
      expect(await run).toEqual({ kind: 'yielded' });
      expect((await stage.row())?.state).toBe('running');
      const next = stage.runner(work, new Drain());
      expect(await next.run(stage.lease(2), firstTry('t'), never())).toEqual({ kind: 'ended', state: 'completed' });
    });
  });
});

function never(): AbortSignal {
  return new AbortController().signal;
}
