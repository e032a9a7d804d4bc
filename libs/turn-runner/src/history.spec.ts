import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Event, EventData, EventType, ModelMessage, ToolCall } from '#protocol';
import { modelInputFaults } from '#test-kit';
import { historyOf, textOf } from './history.js';

/** A session's events, written down one by one. */
class Log {
  readonly events: Event[] = [];

  add<T extends EventType>(turnId: string, generation: number, type: T, data: EventData[T]): this {
    const seq = this.events.length + 1;
    this.events.push({ seq, type, turnId, generation, at: '2030-01-01T00:00:00.000Z', data } as Event);
    return this;
  }

  accepted(turnId: string, content = `ask ${turnId}`, kind: 'user' | 'report' = 'user'): this {
    return this.add(turnId, 1, 'message.accepted', { content, mode: 'enqueue', kind, initiator: 'ann' });
  }

  started(turnId: string, generation = 1): this {
    return this.add(turnId, generation, 'turn.started', { attempt: 1, podId: 'p', epoch: 1 });
  }

  replied(turnId: string, generation: number, step: number, text: string, ids: readonly string[] = []): this {
    const toolCalls: ToolCall[] = ids.map((callId) => ({ callId, name: 'look', input: {} }));
    const finish = ids.length > 0 ? 'tool_calls' : 'stop';
    return this.add(turnId, generation, 'model.message', {
      step: `model:${step}`,
      attempt: 1,
      text,
      toolCalls,
      finish,
    });
  }

  result(turnId: string, generation: number, callId: string, output: unknown = `seen ${callId}`): this {
    return this.add(turnId, generation, 'tool.result', { callId, outcome: 'ok', output });
  }

  absorbed(turnId: string, by: string, generation = 1): this {
    return this.add(turnId, 1, 'turn.absorbed', { absorbedBy: { turnId: by, generation } });
  }

  tell(turnId: string, generation = 1): string[] {
    return historyOf(this.events, { turnId, generation }).map(brief);
  }
}

function brief(message: ModelMessage): string {
  if (message.role === 'tool') return `${message.callId} = ${message.content}`;
  const calls = message.toolCalls?.map(({ callId }) => callId).join(' ');
  return `${message.role}: ${message.content}${calls ? ` [${calls}]` : ''}`;
}

describe('the model input', () => {
  it('follows the order of starts and leaves out what still waits', () => {
    const log = new Log().accepted('t1').accepted('t2').accepted('t3');
    log.started('t1').replied('t1', 1, 1, 'one').started('t2');
    expect(log.tell('t2')).toEqual(['user: ask t1', 'assistant: one', 'user: ask t2']);
  });

  it('has the content as last edited', () => {
    const log = new Log().accepted('t').add('t', 1, 'message.edited', { content: 'better', by: 'ann' }).started('t');
    expect(log.tell('t')).toEqual(['user: better']);
  });

  it('puts results behind their reply in the order of the calls, however they came in', () => {
    const log = new Log().accepted('t').started('t').replied('t', 1, 1, '', ['a', 'b']);
    log.result('t', 1, 'b', { n: 1 }).result('t', 1, 'a').replied('t', 1, 2, 'done');
    expect(log.tell('t')).toEqual(['user: ask t', 'assistant:  [a b]', 'a = seen a', 'b = {"n":1}', 'assistant: done']);
  });

  it('closes the calls that an ended turn has left open', () => {
    const log = new Log().accepted('t1').accepted('t2').started('t1').replied('t1', 1, 1, '', ['a', 'b']);
    log.result('t1', 1, 'b').started('t2');
    const [, , a, b] = log.tell('t2');
    expect(a).toMatch(/^a = interrupted/);
    expect(b).toBe('b = seen b');
  });

  it('forgets what an earlier generation has said, and keeps the users’ messages that it absorbed', () => {
    const log = new Log().accepted('t').accepted('u', 'by the way').accepted('r', 'a report', 'report').started('t');
    log.replied('t', 1, 1, 'wrong').absorbed('u', 't').absorbed('r', 't').replied('t', 1, 2, 'still wrong');
    expect(log.tell('t')).toEqual([
      'user: ask t',
      'assistant: wrong',
      'user: by the way',
      'user: a report',
      'assistant: still wrong',
    ]);
    log.started('t', 2).replied('t', 2, 1, 'right').replied('t', 1, 3, 'late');
    expect(log.tell('t', 2)).toEqual(['user: ask t', 'user: by the way', 'assistant: right']);
  });

  it('never has streamed text, nor replies without anything in them', () => {
    const log = new Log().accepted('t').started('t');
    log.add('t', 1, 'model.text', { step: 'model:1', attempt: 1, offset: 0, text: 'Hello wor' });
    log.replied('t', 1, 1, '');
    expect(log.tell('t')).toEqual(['user: ask t']);
  });

  it('ends with the turn that is asked for', () => {
    const log = new Log().accepted('t1').accepted('t2').started('t1').started('t2').replied('t2', 1, 1, 'two');
    expect(log.tell('t1')).toEqual(['user: ask t1']);
  });

  it('names files in a line each', () => {
    expect(
      textOf([
        { type: 'text', text: 'look' },
        { type: 'file', url: 'https://x/y.png', mediaType: 'image/png', name: 'y.png' },
        { type: 'file', url: 'https://x/z', mediaType: 'text/plain' },
      ]),
    ).toBe('look\n[file: y.png, image/png, https://x/y.png]\n[file: text/plain, https://x/z]');
  });

  /** What happens in a session, as numbers that pick among what is possible at the moment. */
  const happenings = fc.array(fc.record({ what: fc.nat(9), which: fc.nat(5), calls: fc.nat(3) }), { maxLength: 60 });

  it('is valid at every moment of any session, and says each settled reply of the living generation once', () => {
    fc.assert(
      fc.property(happenings, (acts) => {
        const session = new RandomSession();
        for (const act of acts) {
          session.act(act);
          const { running } = session;
          if (!running) continue;
          const messages = historyOf(session.log.events, running);
          expect(modelInputFaults(messages)).toEqual([]);
          const texts = messages
            .filter(({ role }) => role === 'assistant')
            .map((message) => 'content' in message && message.content);
          expect(texts).toEqual(session.expectedReplies());
        }
      }),
      { numRuns: 300 },
    );
  });
});

interface RandomTurn {
  turnId: string;
  generation: number;
  state: 'queued' | 'running' | 'ended';
  replies: string[];
  open: string[];
  startedAs: number;
}

/** Does what a session may do, so that its events are always ones that the runtime could have written. */
class RandomSession {
  readonly log = new Log();
  private readonly turns: RandomTurn[] = [];
  private starts = 0;
  private steps = 0;

  get running(): RandomTurn | undefined {
    return this.turns.find(({ state }) => state === 'running');
  }

  /** The replies that the model input must hold, by the order of starts. */
  expectedReplies(): string[] {
    return this.turns
      .filter(({ startedAs }) => startedAs > 0)
      .sort((a, b) => a.startedAs - b.startedAs)
      .flatMap(({ replies }) => replies);
  }

  act({ what, which, calls }: { what: number; which: number; calls: number }): void {
    const { running } = this;
    const queued = this.turns.filter(({ state }) => state === 'queued');
    const ended = this.turns.filter(({ state, startedAs }) => state === 'ended' && startedAs > 0);
    if (what <= 1) this.accept();
    else if (!running && queued[0]) this.start(queued[0]);
    else if (!running) this.retry(ended[which % Math.max(1, ended.length)]);
    else if (what <= 4 && running.open.length === 0) this.reply(running, calls);
    else if (what <= 6 && running.open.length > 0) this.settle(running, which);
    else if (what === 7 && running.open.length === 0) this.absorb(running, queued[which % Math.max(1, queued.length)]);
    else if (what === 8) this.stream(running);
    else if (what === 9) running.state = 'ended';
  }

  private accept(): void {
    const turnId = `t${this.turns.length}`;
    this.turns.push({ turnId, generation: 1, state: 'queued', replies: [], open: [], startedAs: 0 });
    this.log.accepted(turnId);
  }

  private start(turn: RandomTurn): void {
    Object.assign(turn, { state: 'running', replies: [], open: [], startedAs: ++this.starts });
    this.log.started(turn.turnId, turn.generation);
  }

  private retry(turn: RandomTurn | undefined): void {
    if (!turn) return;
    turn.state = 'queued';
    turn.generation++;
    this.log.add(turn.turnId, turn.generation, 'turn.queued', { retryOf: turn.generation - 1, by: 'ann' });
  }

  private reply(turn: RandomTurn, calls: number): void {
    const step = ++this.steps;
    turn.open = Array.from({ length: calls }, (_, at) => `c${step}-${at}`);
    const text = step % 3 === 0 ? '' : `reply ${step}`;
    if (text !== '' || calls > 0) turn.replies.push(text);
    this.log.replied(turn.turnId, turn.generation, step, text, turn.open);
  }

  private settle(turn: RandomTurn, which: number): void {
    const [callId] = turn.open.splice(which % turn.open.length, 1);
    this.log.result(turn.turnId, turn.generation, callId!);
  }

  private absorb(by: RandomTurn, turn: RandomTurn | undefined): void {
    if (!turn || turn.startedAs > 0) return;
    turn.state = 'ended';
    this.log.absorbed(turn.turnId, by.turnId, by.generation);
  }

  private stream(turn: RandomTurn): void {
    const step = `model:${this.steps + 1}`;
    this.log.add(turn.turnId, turn.generation, 'model.text', { step, attempt: 1, offset: 0, text: 'on its way' });
  }
}
