import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { toolOutput } from './tool-output.js';

describe('a tool’s output', () => {
  it.each([
    ['undefined', undefined, null],
    ['a function', () => 1, null],
    ['a big number', { n: 10n ** 20n }, { n: '100000000000000000000' }],
    ['a date', new Date(0), '1970-01-01T00:00:00.000Z'],
    ['what is no number', Number.NaN, null],
    ['plain JSON', { a: [1, 'x', null] }, { a: [1, 'x', null] }],
  ])('makes JSON of %s', (_name, value, output) => {
    expect(toolOutput(value)).toEqual({ output });
  });

  it('makes text of what refers to itself', () => {
    const loop: Record<string, unknown> = {};
    loop['self'] = loop;
    expect(toolOutput(loop)).toEqual({ output: '[object Object]' });
  });

  it('is cut to what its JSON may take, and says so', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), fc.integer({ min: 8, max: 120 }), (text, max) => {
        const { output, truncated } = toolOutput(text, max);
        expect(Buffer.byteLength(JSON.stringify(output))).toBeLessThanOrEqual(max);
        expect(text.startsWith(output as string)).toBe(true);
        expect(truncated ?? false).toBe(output !== text);
        expect(/\p{Surrogate}/u.test(output as string)).toBe(false);
      }),
    );
    expect(toolOutput({ list: Array(100).fill('x') }, 40)).toEqual({
      output: '{"list":["x","x","x","x","x',
      truncated: true,
    });
  });
});
