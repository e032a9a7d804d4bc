import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { EventData, RunOutcome } from '#protocol';
import { Drain } from '#platform';
import { firstTry, TurnStage } from '#test-kit';
import type { Lease } from '#session-lock';
import { AgentError, type ModelReply, type ModelStep, type TurnContext } from './agent.js';
import type { TurnRunner } from './turn-runner.js';

const OVERLOADED = { code: 'model_overloaded', retryable: true };
/** More than all pauses of a step together. */
const ALL_PAUSES_MS = 60_000;

describe('a model step that fails in a way that may pass', () => {
  let stage: TurnStage;
  let drain: Drain;
  let abort: AbortController;
  let lease: Lease;
  let runner: TurnRunner;
  let run: Promise<RunOutcome>;
  /** Each run of a step's work, with the moment. */
  let runs: { name: string; atMs: number }[];

  beforeEach(async () => {
    stage = await TurnStage.open();
    drain = new Drain();
    abort = new AbortController();
    runs = [];
    await stage.accept();
  });
  afterEach(() => stage.close());

  /** Lets a pod of its own work on the turn until it does not go on by itself. */
  const begin = async (agent: (turn: TurnContext) => Promise<void>, epoch = 1): Promise<void> => {
    lease = stage.lease(epoch);
    runner = stage.runner(agent, drain);
    run = runner.run(lease, firstTry('t'), abort.signal);
    await stage.clock.advance(0);
  };
  const stop = async (): Promise<void> => {
    await stage.stop();
    await runner.stopRequested('acc', firstTry('t'));
  };
  const note = ({ key, attempt, try: nth }: ModelStep): void =>
    void runs.push({ name: `${key}/${attempt}.${nth}`, atMs: stage.clock.monotonicMs() });
  const names = (): string[] => runs.map(({ name }) => name);
  const failures = async (): Promise<EventData['model.failed'][]> =>
    (await stage.events()).flatMap((event) => (event.type === 'model.failed' ? [event.data] : []));

  /** Says the text, and fails as often as is said. */
  const flaky =
    (times: number, text = 'Hello') =>
    async (step: ModelStep): Promise<ModelReply> => {
      note(step);
      step.say(`${text} (${step.try})`);
      await stage.clock.sleep(10, step.signal);
      if (step.try <= times) throw new AgentError('too much at once', OVERLOADED);
      return {};
    };
  const alwaysFailing = async (turn: TurnContext): Promise<void> => void (await turn.model(flaky(Infinity)));

  it('is tried again after growing pauses, and then recorded once', async () => {
    await begin(async (turn) => void (await turn.model(flaky(3))));
    await stage.clock.advance(ALL_PAUSES_MS);
    expect(await run).toEqual({ kind: 'ended', state: 'completed' });
    expect(names()).toEqual(['model:1/1.1', 'model:1/1.2', 'model:1/1.3', 'model:1/1.4']);
    expect((await stage.story()).filter((line) => line.startsWith('model.message'))).toEqual([
      'model.message model:1 Hello (4)',
    ]);
    const pauses = runs.slice(1).map(({ atMs }, at) => atMs - runs[at]!.atMs - 10);
    expect((await failures()).map(({ retryInMs }) => retryInMs)).toEqual(pauses);
    pauses.forEach((pauseMs, at) => expect([50 * 2 ** at <= pauseMs, pauseMs <= 100 * 2 ** at]).toEqual([true, true]));
    expect(stage.clock.pending).toBe(0);
  });

  it('fails the turn when it has been tried often enough; the error says that it may be retried', async () => {
    await begin(alwaysFailing);
    lease.extend(2 * ALL_PAUSES_MS);
    await stage.clock.advance(ALL_PAUSES_MS);
    expect(await run).toEqual({ kind: 'ended', state: 'failed' });
    expect(runs).toHaveLength(10);
    expect((await failures()).map((data) => data.try)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect((await stage.events()).at(-1)).toMatchObject({
      type: 'turn.failed',
      data: { code: 'model_overloaded', message: 'too much at once', retryable: true },
    });
  });

  it.each([
    ['an error that is not retryable', () => new AgentError('no such model')],
    ['any other error', () => new Error('a fault of the agent')],
  ])('is not what fails with %s', async (_, error) => {
    await begin(async (turn) => {
      await turn.model((step) => {
        note(step);
        throw error();
      });
    });
    expect(await run).toEqual({ kind: 'ended', state: 'failed' });
    expect(names()).toEqual(['model:1/1.1']);
  });

  it('makes void what the failed try has said: told before the next one, whose text begins anew', async () => {
    await begin(async (turn) => {
      await turn.model(async (step) => {
        step.say(step.try === 1 ? 'Hello wor' : 'Good day');
        await stage.clock.sleep(300, step.signal);
        if (step.try === 1) throw new AgentError('cut off', OVERLOADED);
        return {};
      });
    });
    await stage.clock.advance(ALL_PAUSES_MS);
    expect(await run).toEqual({ kind: 'ended', state: 'completed' });
    const said = stage.live.deltas.map(({ data }) => data);
    expect(said).toEqual([
      { step: 'model:1', attempt: 1, offset: 0, text: 'Hello wor' },
      { step: 'model:1', attempt: 1, try: 2, offset: 0, text: 'Good day' },
    ]);
    const written = (await stage.events()).flatMap((event) => (event.type.startsWith('model.') ? [event] : []));
    expect(written.map(({ type, data }) => ({ type, data }))).toEqual([
      { type: 'model.text', data: said[0] },
      {
        type: 'model.failed',
        data: {
          ...{ step: 'model:1', attempt: 1, try: 1, retryInMs: expect.any(Number) },
          error: { code: 'model_overloaded', message: 'cut off', retryable: true },
        },
      },
      { type: 'model.text', data: said[1] },
      {
        type: 'model.message',
        data: { step: 'model:1', attempt: 1, text: 'Good day', toolCalls: [], finish: 'stop' },
      },
    ]);
  });

  it('repeats nothing that is recorded: not the steps before it, in this attempt or the next', async () => {
    const agent = async (turn: TurnContext): Promise<void> => {
      await turn.model(flaky(0, 'one'));
      await turn.model(flaky(turn.attempt === 1 ? Infinity : 1, 'two'));
    };
    await begin(agent);
    await stage.clock.advance(500);
    const before = names();
    expect(before.slice(0, 3)).toEqual(['model:1/1.1', 'model:2/1.1', 'model:2/1.2']);
    drain.start();
    expect(await run).toEqual({ kind: 'yielded' });
    drain = new Drain();
    await begin(agent, 2);
    await stage.clock.advance(ALL_PAUSES_MS);
    expect(await run).toEqual({ kind: 'ended', state: 'completed' });
    expect(names().slice(before.length)).toEqual(['model:2/2.1', 'model:2/2.2']);
    expect(names().filter((name) => name.startsWith('model:1'))).toEqual(['model:1/1.1']);
  });

  describe('while it waits for its next try', () => {
    beforeEach(async () => {
      await begin(alwaysFailing);
      await stage.clock.advance(10);
      expect([names(), stage.clock.pending]).toEqual([['model:1/1.1'], 1]);
    });
    afterEach(async () => {
      const before = await stage.events();
      await stage.clock.advance(ALL_PAUSES_MS);
      expect([names(), stage.clock.pending]).toEqual([['model:1/1.1'], 0]);
      expect(await stage.events()).toEqual(before);
    });

    it('stops at once, and leaves nothing of what the failed try has said', async () => {
      await stop();
      expect([await run, stage.clock.pending]).toEqual([{ kind: 'ended', state: 'stopped' }, 0]);
      expect((await stage.story()).slice(-3)).toEqual(['model.failed', 'turn.stop_requested', 'turn.stopped running']);
    });

    it('yields at once when the pod drains', async () => {
      drain.start();
      expect(await run).toEqual({ kind: 'yielded' });
      expect((await stage.story()).slice(-2)).toEqual(['model.failed', 'turn.yielded drain']);
    });

    it('leaves at once when the lease is lost', async () => {
      lease.lose();
      abort.abort(new Error('the lease was lost'));
      expect(await run).toEqual({ kind: 'stale' });
      expect((await stage.story()).slice(-2)).toEqual(['model.failed', 'turn.yielded lease']);
    });
  });

  it('goes on with its tries in a draining pod while a tool call is open', async () => {
    await begin(async (turn) => {
      const { toolCalls } = await turn.model(async () => ({ toolCalls: [{ callId: 'a', name: 'none', input: {} }] }));
      await turn.model(flaky(1));
      await turn.tools(toolCalls, new Map());
      await turn.model(flaky(0));
    });
    await stage.clock.advance(10);
    expect(names()).toEqual(['model:2/1.1']);
    drain.start();
    await stage.clock.advance(ALL_PAUSES_MS);
    expect(await run).toEqual({ kind: 'yielded' });
    expect(names()).toEqual(['model:2/1.1', 'model:2/1.2']);
    expect((await stage.story()).slice(-2)).toEqual(['tool.result a error', 'turn.yielded drain']);
  });
});
