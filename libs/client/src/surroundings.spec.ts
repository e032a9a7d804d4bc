import { expect, test } from '@jest/globals';
import { isId } from '#protocol';
import { SURROUNDINGS } from './surroundings.js';

test('ids are new each time and obey the rule', () => {
  const ids = Array.from({ length: 100 }, () => SURROUNDINGS.randomness.id());
  expect([ids.every(isId), new Set(ids).size]).toEqual([true, 100]);
});

test('a wait that is called off rejects with the reason, before and under way', async () => {
  const reason = new Error('enough');
  await expect(SURROUNDINGS.clock.sleep(60_000, AbortSignal.abort(reason))).rejects.toBe(reason);
  const leaving = new AbortController();
  const waiting = SURROUNDINGS.clock.sleep(60_000, leaving.signal);
  leaving.abort(reason);
  await expect(waiting).rejects.toBe(reason);
});
