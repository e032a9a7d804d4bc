import { describe, expect, it } from '@jest/globals';
import type { Event, EventData, EventType } from '#protocol';
import { TurnProgress } from './turn-progress.js';

function event<T extends EventType>(type: T, data: EventData[T]): Event {
  return { seq: 1, type, turnId: 't', generation: 1, at: '2030-01-01T00:00:00.000Z', data } as Event;
}

const run = { attempt: 1, podId: 'p', epoch: 1 };
/**
 * s started, r resumed, m a reply, c a reply with an open call, k the child that it spawns, t its result, p the child's
 * report; d o a l yields of each reason.
 */
const LETTERS: Record<string, Event> = {
  s: event('turn.started', run),
  r: event('turn.resumed', { ...run, voids: null }),
  m: event('model.message', { step: 'model:1', attempt: 1, text: 'x', toolCalls: [], finish: 'stop' }),
  c: event('model.message', {
    step: 'model:2',
    attempt: 1,
    text: '',
    toolCalls: [{ callId: 'a', name: 'look', input: {} }],
    finish: 'tool_calls',
  }),
  t: event('tool.result', { callId: 'a', outcome: 'ok', output: null }),
  k: event('child.spawned', { callId: 'a', child: { sessionId: 'kid', turnId: 'c', generation: 1 } }),
  p: event('child.reported', {
    child: { sessionId: 'kid', turnId: 'c', generation: 1 },
    state: 'completed',
    text: 'done',
  }),
  d: event('turn.yielded', { reason: 'drain' }),
  o: event('turn.yielded', { reason: 'outage' }),
  a: event('turn.yielded', { reason: 'admin' }),
  l: event('turn.yielded', { reason: 'lease' }),
};
const progress = (letters: string): TurnProgress => TurnProgress.of([...letters].map((letter) => LETTERS[letter]!));

describe('a turn’s progress', () => {
  it.each([
    ['', 0, 0],
    ['s', 1, 1],
    ['srr', 3, 3],
    ['slrl', 2, 2],
    ['sdrora', 3, 0],
    ['srdr', 3, 2],
    ['srmr', 3, 1],
    ['srm', 2, 0],
    ['sct', 1, 0],
    ['srrtd', 3, 0],
    ['smdrr', 3, 2],
    // Waiting for a child is no failure, and its report is progress.
    ['scktrrr', 4, 0],
    ['scktrrprr', 5, 2],
  ])('%s: attempts %i, in a row without a step %i', (letters, attempts, barren) => {
    expect(progress(letters)).toMatchObject({ attempts, barrenAttempts: barren });
  });

  it('knows the open calls and which step a takeover makes void', () => {
    expect(progress('smc')).toMatchObject({ openCalls: ['a'], voidStep: null });
    expect(progress('smct')).toMatchObject({ openCalls: [], voidStep: 'model:3' });
    expect(progress('s')).toMatchObject({ voidStep: 'model:1' });
  });
});
