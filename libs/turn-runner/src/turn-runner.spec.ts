import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { RunOutcome } from '#protocol';
import { Drain, UnavailableError } from '#platform';
import { firstTry, TurnStage } from '#test-kit';
import { Certainty, Lease } from '#session-lock';
import { AgentError, type Tool, type TurnContext } from './agent.js';

const CALLS = ['a', 'b', 'c'].map((callId) => ({ callId, name: 'look', input: {} }));

/** A tool whose calls settle when the test says so. */
class Bench {
  readonly runs: string[] = [];
  readonly keys: string[] = [];
  readonly signals = new Map<string, AbortSignal>();
  private readonly calls = new Map<string, PromiseWithResolvers<unknown>>();

  constructor(private readonly isRepeatable = false) {}

  readonly toolbox = new Map<string, Tool>([
    [
      'look',
      {
        repeatable: () => this.isRepeatable,
        run: (_input, { callId, idempotencyKey, signal }) => {
          this.runs.push(callId);
          this.keys.push(idempotencyKey);
          this.signals.set(callId, signal);
          return this.call(callId).promise;
        },
      },
    ],
  ]);

  settle(callId: string, output: unknown = `seen ${callId}`): void {
    this.call(callId).resolve(output);
  }

  reject(callId: string, error: Error): void {
    this.call(callId).reject(error);
  }

  private call(callId: string): PromiseWithResolvers<unknown> {
    const call = this.calls.get(callId) ?? Promise.withResolvers<unknown>();
    this.calls.set(callId, call);
    return call;
  }
}

describe('the turn runner', () => {
  let stage: TurnStage;
  let steps: string[];

  /** Says each text as a model step; notes which steps really ran. */
  const say =
    (...texts: string[]) =>
    async (turn: TurnContext): Promise<void> => {
      for (const text of texts) {
        await turn.model(async (step) => {
          steps.push(`${step.key}/${step.attempt}`);
          step.say(text);
          return {};
        });
      }
    };
  const callTools =
    (bench: Bench, calls = CALLS) =>
    async (turn: TurnContext): Promise<void> => {
      const { toolCalls } = await turn.model(async (step) => {
        steps.push(`${step.key}/${step.attempt}`);
        return { toolCalls: calls };
      });
      const results = await turn.tools(toolCalls, bench.toolbox);
      await say(results.map(({ outcome }) => outcome).join(' '))(turn);
    };

  beforeEach(async () => {
    stage = await TurnStage.open();
    steps = [];
    await stage.accept();
  });
  afterEach(() => stage.close());

  /** Runs an attempt up to a step point and cuts it off there. */
  const cutAt = async (
    point: string,
    agent: (turn: TurnContext) => Promise<void>,
    passages = 1,
  ): Promise<RunOutcome> => {
    for (let passage = 1; passage < passages; passage++) stage.steps.at(point, () => undefined);
    const hold = stage.steps.hold(point);
    const abort = new AbortController();
    const lease = stage.lease(1);
    const run = stage.run(agent, { lease, signal: abort.signal });
    await hold.reached;
    lease.lose();
    abort.abort(new Error('the lease was lost'));
    await stage.clock.advance(5000);
    hold.release();
    return run;
  };

  describe('steps', () => {
    it('answers recorded steps from the ledger and goes on with the first missing one', async () => {
      await cutAt('step.before', say('one', 'two', 'three'), 3);
      expect(await stage.run(say('one', 'two', 'three'), { lease: stage.lease(2) })).toEqual({
        kind: 'ended',
        state: 'completed',
      });
      expect(steps).toEqual(['model:1/1', 'model:2/1', 'model:3/2']);
      const replies = (await stage.story()).filter((line) => line.startsWith('model.message'));
      expect(replies).toEqual([
        'model.message model:1 one',
        'model.message model:2 two',
        'model.message model:3 three',
      ]);
    });

    it.each(['step.before', 'append.before'])('a lease lost at %s keeps the step out of the ledger', async (point) => {
      expect(await cutAt(point, say('one'))).toEqual({ kind: 'stale' });
      expect((await stage.story()).filter((line) => line.startsWith('model'))).toEqual([]);
      expect(steps).toEqual(point === 'step.before' ? [] : ['model:1/1']);
    });

    it('refuses the writes of an owner that was overtaken between its last check and the act', async () => {
      const hold = stage.steps.hold('append.checked');
      const run = stage.run(say('one', 'two'));
      await hold.reached;
      await stage.claim(2);
      hold.release();
      expect(await run).toEqual({ kind: 'stale' });
      expect(await stage.story()).toEqual(['turn.started']);
      expect(steps).toEqual(['model:1/1']);
    });

    it('never records what a step brings after the attempt was left', async () => {
      const late = Promise.withResolvers<void>();
      const abort = new AbortController();
      const run = stage.run(
        (turn) =>
          turn.model(async (step) => {
            step.say('in time ');
            await late.promise;
            step.say('too late');
            return {};
          }) as Promise<never>,
        { signal: abort.signal },
      );
      await stage.clock.advance(0);
      abort.abort(new Error('the pod must leave'));
      expect(await run).toEqual({ kind: 'yielded' });
      expect(stage.clock.pending).toBe(0);
      late.resolve();
      await stage.clock.advance(1000);
      expect(await stage.story()).toEqual(['turn.started', 'turn.yielded lease']);
      expect(stage.live.deltas.map(({ data }) => data.text)).toEqual(['in time ']);
    });

    it('stores a slow text in pieces and replaces them by the whole', async () => {
      const rest = Promise.withResolvers<void>();
      const run = stage.run(async (turn) => {
        await turn.model(async (step) => {
          step.say('Hello ');
          await rest.promise;
          step.say('world');
          return {};
        });
      });
      await stage.clock.advance(250);
      rest.resolve();
      await run;
      const texts = (await stage.events()).filter(({ type }) => type === 'model.text');
      expect(texts.map(({ data }) => data)).toEqual([{ step: 'model:1', attempt: 1, offset: 0, text: 'Hello ' }]);
      expect(await stage.story()).toContain('model.message model:1 Hello world');
      expect(stage.live.deltas.map(({ data }) => data.text).join('')).toBe('Hello world');
    });

    it('reports the usage of all steps together', async () => {
      await stage.run(async (turn) => {
        await turn.model(async () => ({ usage: { inputTokens: 1, outputTokens: 10 } }));
        await turn.model(async () => ({ usage: { inputTokens: 2, outputTokens: 20 } }));
      });
      expect((await stage.events()).at(-1)?.data).toEqual({ usage: { inputTokens: 3, outputTokens: 30 } });
    });

    it('lets nothing follow a step that has failed, even when the agent bears with it', async () => {
      const run = stage.run(async (turn) => {
        await turn.model(() => Promise.reject(new Error('no model'))).catch(() => undefined);
        await say('after')(turn);
      });
      expect(await run).toEqual({ kind: 'ended', state: 'failed' });
      expect(steps).toEqual([]);
      expect((await stage.row())?.error).toMatchObject({ message: 'no model' });
    });
  });

  describe('tools', () => {
    it('records all calls of a batch before the first runs, and each result as it settles', async () => {
      const bench = new Bench();
      const run = stage.run(callTools(bench));
      await stage.clock.advance(0);
      expect(bench.runs).toEqual(['a', 'b', 'c']);
      expect((await stage.story()).slice(2)).toEqual(['tool.call a', 'tool.call b', 'tool.call c']);
      bench.settle('b');
      await stage.clock.advance(0);
      expect((await stage.story()).at(-1)).toBe('tool.result b ok');
      bench.settle('a');
      bench.reject('c', new Error('no'));
      expect(await run).toEqual({ kind: 'ended', state: 'completed' });
      expect(await stage.story()).toContain('model.message model:2 ok ok error');
      expect(bench.keys).toEqual(['t/1/a', 't/1/b', 't/1/c']);
    });

    it.each([
      ['runs a repeatable call again under the same key', true, 'ok', ['a', 'b', 'c', 'b', 'c']],
      ['does not run another call again: its outcome is unknown', false, 'outcome_unknown', ['a', 'b', 'c']],
    ])('after a crash it %s', async (_name, isRepeatable, outcome, runs) => {
      const bench = new Bench(isRepeatable);
      const abort = new AbortController();
      const first = stage.run(callTools(bench), { signal: abort.signal });
      await stage.clock.advance(0);
      bench.settle('a');
      await stage.clock.advance(0);
      abort.abort(new Error('leave'));
      await first;
      const second = stage.run(callTools(bench), { lease: stage.lease(2) });
      await stage.clock.advance(0);
      bench.settle('b');
      bench.settle('c');
      expect(await second).toEqual({ kind: 'ended', state: 'completed' });
      expect(bench.runs).toEqual(runs);
      expect(new Set(bench.keys).size).toBe(3);
      expect(steps).toEqual(['model:1/1', 'model:2/2']);
      const story = await stage.story();
      expect(story.filter((line) => line.startsWith('tool.call'))).toHaveLength(3);
      expect(story).toEqual(
        expect.arrayContaining(['tool.result a ok', `tool.result b ${outcome}`, `tool.result c ${outcome}`]),
      );
    });

    it('runs no tool when the lease is lost between the record of the call and the call', async () => {
      const bench = new Bench();
      expect(await cutAt('tool.before', callTools(bench))).toEqual({ kind: 'stale' });
      expect(bench.runs).not.toContain('a');
    });

    it('answers a call of an unknown tool with an error', async () => {
      await stage.run(callTools(new Bench(), [{ callId: 'a', name: 'guess', input: {} }]));
      expect(await stage.story()).toContain('tool.result a error');
    });

    it.each([
      ['an id used twice', ['a', 'a']],
      ['an id that is none', ['a/b']],
    ])('fails the turn over %s', async (_name, ids) => {
      const calls = ids.map((callId) => ({ callId, name: 'look', input: {} }));
      expect(await stage.run(callTools(new Bench(), calls))).toEqual({ kind: 'ended', state: 'failed' });
    });

    it('closes what a failing agent has left open, after waiting for it for a bounded time', async () => {
      const bench = new Bench();
      const run = stage.run(async (turn) => {
        const { toolCalls } = await turn.model(async () => ({ toolCalls: CALLS }));
        void turn.tools(toolCalls, bench.toolbox).catch(() => undefined);
        await Promise.resolve();
        await stage.clock.sleep(100);
        throw new AgentError('enough', { code: 'bored', retryable: true });
      });
      await stage.clock.advance(100);
      bench.settle('a');
      await stage.clock.advance(5000);
      expect(await run).toEqual({ kind: 'ended', state: 'failed' });
      bench.settle('b', 'too late');
      await stage.clock.advance(1000);
      expect((await stage.story()).slice(-4)).toEqual([
        'tool.result a ok',
        'tool.result b interrupted',
        'tool.result c interrupted',
        'turn.failed bored',
      ]);
      expect((await stage.row())?.error).toEqual({ code: 'bored', message: 'enough', retryable: true });
    });
  });

  describe('leaving', () => {
    it('a draining pod yields only where every call has its result', async () => {
      const bench = new Bench();
      const run = stage.run(callTools(bench));
      await stage.clock.advance(0);
      stage.drain.start();
      await stage.clock.advance(1000);
      for (const { callId } of CALLS) bench.settle(callId);
      expect(await run).toEqual({ kind: 'yielded' });
      expect((await stage.story()).slice(-4)).toEqual([
        'tool.result a ok',
        'tool.result b ok',
        'tool.result c ok',
        'turn.yielded drain',
      ]);
      expect(
        await stage.runner(callTools(bench), new Drain()).run(stage.lease(2), firstTry('t'), neverAborted()),
      ).toEqual({
        kind: 'ended',
        state: 'completed',
      });
      expect(bench.runs).toEqual(['a', 'b', 'c']);
    });

    it('begins nothing while its lease is in doubt, and goes on when that is over', async () => {
      const certainty = new Certainty();
      const owner = { podId: 'pod-1', boot: 'boot', epoch: 1 };
      const lease = new Lease(stage.session, owner, stage.clock, stage.clock.monotonicMs() + 30_000, certainty);
      const bench = new Bench();
      const run = stage.run(
        async (turn) => {
          const { toolCalls } = await turn.model(async () => {
            certainty.doubt();
            return { toolCalls: CALLS };
          });
          await turn.tools(toolCalls, bench.toolbox);
        },
        { lease },
      );
      await stage.clock.advance(1000);
      // What was under way has been recorded; the calls are issued, and none of them begun.
      expect([(await stage.story()).at(-1), bench.runs]).toEqual(['tool.call c', []]);
      certainty.settle();
      await stage.clock.advance(0);
      for (const { callId } of CALLS) bench.settle(callId);
      expect(await run).toEqual({ kind: 'ended', state: 'completed' });
    });

    it('a draining pod goes on to a model step while calls are open', async () => {
      const bench = new Bench();
      const run = stage.run(async (turn) => {
        const { toolCalls } = await turn.model(async () => ({ toolCalls: CALLS.slice(0, 1) }));
        stage.drain.start();
        await say('in between')(turn);
        bench.settle('a');
        await turn.tools(toolCalls, bench.toolbox);
        await say('after')(turn);
      });
      expect(await run).toEqual({ kind: 'yielded' });
      expect((await stage.story()).slice(2)).toEqual([
        'model.message model:2 in between',
        'tool.call a',
        'tool.result a ok',
        'turn.yielded drain',
      ]);
    });

    it('a draining pod lets a step under way end, and a turn that is done ends', async () => {
      const run = stage.run(async (turn) => {
        await turn.model(async () => {
          stage.drain.start();
          return {};
        });
      });
      expect(await run).toEqual({ kind: 'ended', state: 'completed' });
    });

    it('yields even when the agent swallows what the context throws', async () => {
      stage.drain.start();
      const run = stage.run(async (turn) => {
        await say('one')(turn).catch(() => undefined);
      });
      expect(await run).toEqual({ kind: 'yielded' });
      expect(await stage.story()).toEqual(['turn.started', 'turn.yielded drain']);
    });

    it('does not wait for an agent that is deaf', async () => {
      const abort = new AbortController();
      const run = stage.run(() => new Promise(() => undefined), { signal: abort.signal });
      await stage.clock.advance(0);
      stage.drain.start();
      abort.abort(new Error('the pod must leave'));
      expect(await run).toEqual({ kind: 'yielded' });
      expect(await stage.story()).toEqual(['turn.started', 'turn.yielded drain']);
    });

    it.each(['gate3.before', 'append.checked', 'finish.checked', 'yield.before'])(
      'answers in time even when the ledger hangs at %s',
      async (point) => {
        const abort = new AbortController();
        if (point === 'yield.before') stage.drain.start();
        const hold = stage.steps.hold(point);
        const run = stage.run(say('one'), { signal: abort.signal });
        await hold.reached;
        abort.abort(new Error('the pod must leave'));
        await stage.clock.advance(1500);
        expect(await run).toEqual({ kind: 'yielded' });
        expect(stage.clock.pending).toBe(0);
      },
    );

    it('says so when an outage of Redis has cost the lease', async () => {
      const abort = new AbortController();
      const lease = stage.lease(1);
      const run = stage.run(() => new Promise(() => undefined), { lease, signal: abort.signal });
      await stage.clock.advance(0);
      lease.lose();
      abort.abort(new UnavailableError('redis', 'away'));
      expect(await run).toEqual({ kind: 'stale' });
      expect(await stage.story()).toEqual(['turn.started', 'turn.yielded outage']);
    });

    it('waits through an outage of the ledger and records each step once', async () => {
      const hold = stage.steps.hold('append.before');
      const run = stage.run(say('one', 'two'));
      await hold.reached;
      stage.database.down = true;
      hold.release();
      await stage.clock.advance(4000);
      stage.database.down = false;
      await stage.clock.advance(4000);
      expect(await run).toEqual({ kind: 'ended', state: 'completed' });
      expect(steps).toEqual(['model:1/1', 'model:2/1']);
    });

    it('leaves when the lease ends during an outage of the ledger', async () => {
      const hold = stage.steps.hold('append.before');
      const run = stage.run(say('one'));
      await hold.reached;
      stage.database.down = true;
      hold.release();
      await stage.clock.advance(35_000);
      expect(await run).toEqual({ kind: 'stale' });
    });
  });

  describe('stopping', () => {
    it('ends a step under way, keeps what it has said, and ends as stopped', async () => {
      const runner = stage.runner(async (turn) => {
        await turn.model(async (step) => {
          step.say('Hello wor');
          await stage.clock.sleep(60_000, step.signal);
          return {};
        });
      });
      const run = runner.run(stage.lease(1), firstTry('t'), neverAborted());
      await stage.clock.advance(100);
      await stage.stop();
      await runner.stopRequested('acc', firstTry('t'));
      expect(await run).toEqual({ kind: 'ended', state: 'stopped' });
      expect((await stage.story()).slice(-2)).toEqual(['model.message model:1 Hello wor', 'turn.stopped running']);
      expect(stage.clock.pending).toBe(0);
    });

    it('aborts tools, waits for the deaf ones for a bounded time, and closes their calls', async () => {
      const bench = new Bench();
      const runner = stage.runner(callTools(bench));
      const run = runner.run(stage.lease(1), firstTry('t'), neverAborted());
      await stage.clock.advance(0);
      await stage.stop();
      await runner.stopRequested('acc', firstTry('t'));
      expect(bench.signals.get('a')?.aborted).toBe(true);
      bench.settle('a');
      bench.reject('b', new Error('aborted'));
      await stage.clock.advance(5000);
      expect(await run).toEqual({ kind: 'ended', state: 'stopped' });
      bench.settle('c');
      await stage.clock.advance(100);
      expect((await stage.story()).slice(-4)).toEqual([
        'tool.result a ok',
        'tool.result b interrupted',
        'tool.result c interrupted',
        'turn.stopped running',
      ]);
    });

    it.each([
      ['the lease is lost', true, 'stale'],
      ['the pod must leave', false, 'yielded'],
    ])('leaves the end to the next owner when %s while it waits for the tools', async (reason, isLost, outcome) => {
      const bench = new Bench();
      const runner = stage.runner(callTools(bench));
      const abort = new AbortController();
      const lease = stage.lease(1);
      const run = runner.run(lease, firstTry('t'), abort.signal);
      await stage.clock.advance(0);
      await stage.stop();
      await runner.stopRequested('acc', firstTry('t'));
      await stage.clock.advance(100);
      if (isLost) lease.lose();
      abort.abort(new Error(reason));
      expect(await run).toEqual({ kind: outcome });
      expect((await stage.row())?.state).toBe('stop_requested');
    });

    it('ignores a notice of a stop that nobody has requested, and one of another generation', async () => {
      const runner = stage.runner(async (turn) => {
        await runner.stopRequested('acc', firstTry('t'));
        await runner.stopRequested('acc', { turnId: 't', generation: 2 });
        await say('on')(turn);
      });
      expect(await runner.run(stage.lease(1), firstTry('t'), neverAborted())).toEqual({
        kind: 'ended',
        state: 'completed',
      });
    });

    it('ends as stopped whichever way the work came out, once the stop was requested', async () => {
      const run = stage.run(async () => {
        await stage.stop();
        throw new AgentError('failed just then');
      });
      expect(await run).toEqual({ kind: 'ended', state: 'stopped' });
      expect((await stage.row())?.error).toBeNull();
    });
  });

  describe('the end', () => {
    it('is said once when the answer of its commit is lost', async () => {
      const run = stage.run(async (turn) => {
        await say('one')(turn);
        stage.steps.fail('database.committed', new Error('lost'));
      });
      expect(await run).toEqual({ kind: 'ended', state: 'completed' });
      expect((await stage.story()).filter((line) => line === 'turn.completed')).toHaveLength(1);
      expect(stage.live.events.at(-1)?.type).toBe('turn.completed');
    });

    it('is refused to an owner that was overtaken; the next one says it', async () => {
      const hold = stage.steps.hold('finish.checked');
      const run = stage.run(say('one'));
      await hold.reached;
      await stage.claim(2);
      hold.release();
      expect(await run).toEqual({ kind: 'stale' });
      expect(await stage.run(say('one'), { lease: stage.lease(3) })).toEqual({ kind: 'ended', state: 'completed' });
      expect(steps).toEqual(['model:1/1']);
    });

    it('names an unknown error by its message, without its stack', async () => {
      await stage.run(() => Promise.reject(new TypeError('x is not a function')));
      expect((await stage.row())?.error).toEqual({
        code: 'agent_error',
        message: 'x is not a function',
        retryable: false,
      });
    });
  });
});

function neverAborted(): AbortSignal {
  return new AbortController().signal;
}
