import { expect, test } from '@jest/globals';
import type { Event, LiveDelta } from '#protocol';
import { AdjoiningText } from './adjoining-text.js';

interface Place {
  turnId?: string;
  step?: string;
  attempt?: number;
  nth?: number;
}
const common = (turnId: string) => ({ turnId, generation: 1, at: '2030-01-01T00:00:00.000Z' });

function delta(
  offset: number,
  text: string,
  { turnId = 't1', step = 'model:1', attempt = 1, nth }: Place = {},
): LiveDelta {
  const data = { step, attempt, ...(nth !== undefined && { try: nth }), offset, text };
  return { type: 'model.delta', ...common(turnId), data };
}
function failed(nth: number): Event {
  const error = { code: 'model_overloaded', message: 'too much at once', retryable: true };
  const data = { step: 'model:1', attempt: 1, try: nth, error, retryInMs: 100 };
  return { seq: 1, type: 'model.failed', ...common('t1'), data };
}
function stored(offset: number, text: string, { turnId = 't1', step = 'model:1', attempt = 1 }: Place = {}): Event {
  return { seq: 1, type: 'model.text', ...common(turnId), data: { step, attempt, offset, text } };
}
function reply(text: string, { turnId = 't1', step = 'model:1', attempt = 1 }: Place = {}): Event {
  return {
    seq: 1,
    type: 'model.message',
    ...common(turnId),
    data: { step, attempt, text, toolCalls: [], finish: 'stop' },
  };
}

test('pieces that adjoin from the beginning of a step are passed on; offsets count UTF-16 units', () => {
  const text = new AdjoiningText();
  expect([text.takes(delta(0, '👍')), text.takes(delta(2, ' ok')), text.takes(delta(5, '!'))]).toEqual([
    true,
    true,
    true,
  ]);
});

test('after a loss nothing is passed on until stored text has filled it', () => {
  const text = new AdjoiningText();
  expect([text.takes(delta(0, 'one ')), text.takes(delta(8, 'three ')), text.takes(delta(14, 'four '))]).toEqual([
    true,
    false,
    false,
  ]);
  text.hear(stored(0, 'one two three '));
  expect([text.takes(delta(8, 'three ')), text.takes(delta(14, 'four '))]).toEqual([false, true]);
});

test('a watch that begins in the middle of a reply waits for stored text', () => {
  const text = new AdjoiningText();
  expect(text.takes(delta(20, 'late'))).toBe(false);
  text.hear(stored(20, 'late'));
  expect(text.takes(delta(24, '!'))).toBe(true);
});

test('nothing follows a whole reply but the next step', () => {
  const text = new AdjoiningText();
  text.takes(delta(0, 'one'));
  text.hear(reply('one two'));
  expect([text.takes(delta(3, ' two')), text.takes(delta(0, 'one'))]).toEqual([false, false]);
  expect(text.takes(delta(0, 'next', { step: 'model:2' }))).toBe(true);
});

test('text of a try that has failed is not passed on, that of the next one is, from its beginning', () => {
  const text = new AdjoiningText();
  expect(text.takes(delta(0, 'first'))).toBe(true);
  text.hear(failed(1));
  expect([text.takes(delta(0, 'first')), text.takes(delta(5, ' more'))]).toEqual([false, false]);
  expect([text.takes(delta(0, 'again', { nth: 2 })), text.takes(delta(5, '!', { nth: 2 }))]).toEqual([true, true]);
});

test('the next try is known by its text too, should word of the failure come later', () => {
  const text = new AdjoiningText();
  expect(text.takes(delta(0, 'first'))).toBe(true);
  expect([text.takes(delta(0, 'again', { nth: 2 })), text.takes(delta(5, ' more'))]).toEqual([true, false]);
});

test('text of an attempt that another one has followed is not passed on', () => {
  const text = new AdjoiningText();
  expect(text.takes(delta(0, 'first'))).toBe(true);
  expect(text.takes(delta(0, 'again', { attempt: 2 }))).toBe(true);
  expect([text.takes(delta(5, ' more')), text.takes(delta(5, ' more', { attempt: 2 }))]).toEqual([false, true]);
  expect(text.takes(delta(0, 'other', { turnId: 't2' }))).toBe(true);
});
