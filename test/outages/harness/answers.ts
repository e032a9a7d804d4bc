import { expect } from '@jest/globals';
import type { ErrorCode } from '#protocol';
import type { Answer } from '../../e2e/harness/caller.js';

interface TimedAnswer<T> extends Answer<T> {
  tookMs: number;
}

/** The answer to a call, and how long it took. */
export async function timed<T>(call: Promise<Answer<T>>): Promise<TimedAnswer<T>> {
  const sinceMs = performance.now();
  const answer = await call;
  return { ...answer, tookMs: performance.now() - sinceMs };
}

/** A refusal whose code stays the same and which says when to come back. */
export function expectUnavailable(answer: Answer<unknown>, code: ErrorCode): void {
  expect([answer.status, answer.body]).toEqual([503, expect.objectContaining({ code })]);
  expect(answer.headers.get('retry-after')).toMatch(/^\d+$/);
}
