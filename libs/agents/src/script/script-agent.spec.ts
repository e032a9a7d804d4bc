import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { firstTry, TurnStage } from '#test-kit';
import { ScriptAgent } from './script-agent.js';

interface LoggedCall {
  at: number;
  phase: 'start' | 'end';
  kind: string;
  key: string;
}

describe('the script agent', () => {
  let stage: TurnStage;
  let dir: string;
  let exits: number[];
  let ns: number;

  beforeEach(async () => {
    stage = await TurnStage.open();
    dir = mkdtempSync(join(tmpdir(), 'butler-script-'));
    exits = [];
    ns = 0;
  });
  afterEach(async () => {
    await stage.close();
    rmSync(dir, { recursive: true });
  });

  const start = async (
    script: string,
    { epoch = 1, scriptDir = dir as string | null, signal = new AbortController().signal } = {},
  ) => {
    if (!(await stage.row())) await stage.accept('t', script);
    const exit = (code: number): void => void exits.push(code);
    const agent = new ScriptAgent(stage.clock, { dir: scriptDir, exit, nowNs: () => ++ns });
    return stage.runner((turn) => agent.run(turn)).run(stage.lease(epoch), firstTry('t'), signal);
  };
  /** Plays a script to its end, however long it takes. */
  const play = async (...args: Parameters<typeof start>) => {
    const run = start(...args);
    await stage.clock.advance(10_000);
    return run;
  };
  const replies = async (): Promise<string[]> =>
    (await stage.events()).flatMap((event) => (event.type === 'model.message' ? [event.data.text] : []));
  const results = async (): Promise<unknown[]> =>
    (await stage.events()).flatMap((event) => (event.type === 'tool.result' ? [event.data] : []));
  const calls = (): LoggedCall[] =>
    readFileSync(join(dir, 'calls.jsonl'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as LoggedCall);

  it('streams a reply word by word, at its pace', async () => {
    const run = start('pace 100\nsay one two three');
    await stage.clock.advance(100);
    expect(stage.live.deltas.map(({ data }) => data.text)).toEqual(['one ', 'two ']);
    await stage.clock.advance(100);
    expect(await run).toEqual({ kind: 'ended', state: 'completed' });
    expect(await replies()).toEqual(['one two three']);
  });

  it('sleeps as a step that is recorded', async () => {
    const run = start('sleep 500\nsay done');
    await stage.clock.advance(499);
    expect(await replies()).toEqual([]);
    await stage.clock.advance(1);
    await run;
    expect(await replies()).toEqual(['', 'done']);
  });

  it('replies with the model input it was given', async () => {
    await play('say hi\ntool fail {"message":"no"}\nhistory');
    expect(JSON.parse((await replies()).at(-1)!)).toEqual([
      { role: 'user', content: 'say hi\ntool fail {"message":"no"}\nhistory' },
      { role: 'assistant', content: 'hi' },
      { role: 'assistant', content: '', toolCalls: [{ callId: 'model-2-1', name: 'fail', input: { message: 'no' } }] },
      { role: 'tool', callId: 'model-2-1', content: 'error: {"message":"no"}' },
    ]);
  });

  it('appends a line that tells who did it, under SCRIPT_DIR only', async () => {
    await play(
      'tool append {"file":"out.txt","line":"a\\nb"}\ntool append {"file":"../out","line":"x"}\ntool append {"file":"calls.jsonl","line":"x"}',
    );
    expect(readFileSync(join(dir, 'out.txt'), 'utf8')).toBe('pod-1 t 1 1 1 model-1-1 a b\n');
    expect((await results()).map((result) => (result as { outcome: string }).outcome)).toEqual([
      'ok',
      'error',
      'error',
    ]);
    expect(readdirSync(dir).sort()).toEqual(['calls.jsonl', 'out.txt']);
  });

  it('appends nothing without SCRIPT_DIR, and logs nothing', async () => {
    await play('tool append {"file":"out.txt","line":"x"}', { scriptDir: null });
    expect(await results()).toMatchObject([{ outcome: 'error' }]);
    expect(readdirSync(dir)).toEqual([]);
  });

  it('runs the calls of a parallel block at once, as one step', async () => {
    const run = start(
      'parallel\n  tool sleep {"ms":300}\n  tool sleep {"ms":200,"deaf":true}\n  tool append {"file":"f","line":"x","ms":100}',
    );
    await stage.clock.advance(300);
    await run;
    expect((await stage.story()).slice(1)).toEqual([
      'model.message model:1',
      'tool.call model-1-1',
      'tool.call model-1-2',
      'tool.call model-1-3',
      'tool.result model-1-3 ok',
      'tool.result model-1-2 ok',
      'tool.result model-1-1 ok',
      'turn.completed',
    ]);
  });

  it('logs what really runs, not what is replayed', async () => {
    const abort = new AbortController();
    const script = 'say hi\ntool sleep {"ms":10}\nsleep 1000\nsay bye';
    const first = start(script, { signal: abort.signal });
    await stage.clock.advance(500);
    abort.abort(new Error('leave'));
    await first;
    await play(script, { epoch: 2 });
    expect(calls().map(({ phase, kind, key }) => `${phase} ${kind} ${key}`)).toEqual([
      ...['start model model:1', 'end model model:1', 'start model model:2', 'end model model:2'],
      ...['start tool tool:model-2-1', 'end tool tool:model-2-1', 'start model model:3', 'end model model:3'],
      ...['start model model:3', 'end model model:3', 'start model model:4', 'end model model:4'],
    ]);
    expect(calls().at(-1)).toEqual({
      at: 12,
      phase: 'end',
      kind: 'model',
      pod: 'pod-2',
      boot: 'boot',
      session: 's',
      turn: 't',
      generation: 1,
      attempt: 2,
      epoch: 2,
      key: 'model:4',
    });
  });

  it('fails with its first unknown line before its first step', async () => {
    expect(await play('say hi\ndance')).toEqual({ kind: 'ended', state: 'failed' });
    expect(await replies()).toEqual([]);
    expect((await stage.row())?.error).toEqual({
      code: 'agent_error',
      message: 'line 2 of the script is not understood: dance',
      retryable: false,
    });
  });

  it('"throw" fails the turn', async () => {
    await play('throw no way');
    expect((await stage.row())?.error).toMatchObject({ code: 'agent_error', message: 'no way' });
  });

  it('spawns a child with its lines, and goes on at once; without children there is nothing to await', async () => {
    await play('await\nspawn child\n  say hi\n  say more\nsay done');
    const [result] = (await results()) as { outcome: string; output: { sessionId: string; turnId: string } }[];
    expect(result).toMatchObject({ outcome: 'ok', output: { sessionId: 'child', generation: 1 } });
    const child = await stage.row(result!.output.turnId);
    expect(child).toMatchObject({ sessionId: 'child', state: 'queued', parent: { sessionId: 's', turnId: 't' } });
    const [said] = await stage.ledger.events({ account: 'acc', sessionId: 'child' }, 0, 1);
    expect(said?.data).toMatchObject({ content: 'say hi\nsay more' });
    expect(await replies()).toEqual(['', 'done']);
  });

  it('bears with failures for a bounded time, then says its text', async () => {
    await play('say first\nflaky 3 at last');
    expect(await replies()).toEqual(['first', 'at last']);
    expect((await stage.story()).filter((line) => line === 'model.failed')).toHaveLength(3);
  });

  it('ends the pauses of a flaky reply when the turn is stopped, and says nothing', async () => {
    await stage.accept('t', 'flaky 9 at last');
    const agent = new ScriptAgent(stage.clock, { dir, exit: () => undefined, nowNs: () => ++ns });
    const runner = stage.runner((turn) => agent.run(turn));
    const run = runner.run(stage.lease(1), firstTry('t'), new AbortController().signal);
    await stage.clock.advance(500);
    await stage.stop();
    await runner.stopRequested('acc', firstTry('t'));
    expect(await run).toEqual({ kind: 'ended', state: 'stopped' });
    expect(await replies()).toEqual([]);
    expect(stage.clock.pending).toBe(0);
  });

  it('floods in steps of at most 1 MiB', async () => {
    const run = start('flood 2500000');
    await stage.clock.advance(10_000);
    await run;
    expect((await replies()).map((text) => text.length)).toEqual([1_048_576, 1_048_576, 402_848]);
  });

  it('ends the process in the middle of a step, which is so never recorded', async () => {
    const abort = new AbortController();
    const run = start('exit 137', { signal: abort.signal });
    await stage.clock.advance(1000);
    expect(exits).toEqual([137]);
    expect(calls()).toMatchObject([{ phase: 'start', key: 'model:1' }]);
    abort.abort(new Error('dead'));
    expect(await run).toEqual({ kind: 'yielded' });
  });
});
