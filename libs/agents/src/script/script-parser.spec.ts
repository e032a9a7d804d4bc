import { describe, expect, it } from '@jest/globals';
import type { ScriptLine } from './script-line.js';
import { parseScript, scriptText } from './script-parser.js';

const call = (name: string, input: unknown): ScriptLine => ({ does: 'tools', calls: [{ name, input }] });

describe('a script', () => {
  it.each<[string, ScriptLine]>([
    ['say Hello  world ', { does: 'say', text: 'Hello  world' }],
    ['pace 20', { does: 'pace', ms: 20 }],
    ['sleep 0', { does: 'sleep', ms: 0 }],
    ['history', { does: 'history' }],
    ['tool append {"file":"f","line":"x y"}', call('append', { file: 'f', line: 'x y' })],
    ['tool unheard-of {}', call('unheard-of', {})],
    ['await', { does: 'await' }],
    ['flaky 2 at last', { does: 'flaky', times: 2, text: 'at last' }],
    ['flood 2000000', { does: 'flood', bytes: 2_000_000 }],
    ['block 10', { does: 'block', ms: 10 }],
    ['exit 137', { does: 'exit', code: 137 }],
    ['throw no way', { does: 'throw', text: 'no way' }],
    [
      'parallel\n  tool sleep {"ms":1}\n\n\ttool fail {"message":"m"}',
      {
        does: 'tools',
        calls: [
          { name: 'sleep', input: { ms: 1 } },
          { name: 'fail', input: { message: 'm' } },
        ],
      },
    ],
    [
      'spawn child-1\n  say hi\n  parallel\n    tool sleep {"ms":1}',
      { does: 'spawn', sessionId: 'child-1', content: 'say hi\nparallel\n  tool sleep {"ms":1}' },
    ],
  ])('%j is understood', (text, line) => {
    expect(parseScript(text)).toEqual([line]);
  });

  it.each([
    ['an unknown line', 'say a\n\ndance', 'line 3 of the script is not understood: dance'],
    ['say without a text', 'say', 'line 1'],
    ['a number that is none', 'sleep soon', 'line 1'],
    ['a number too large', 'sleep 99999999999', 'line 1'],
    ['an exit code too large', 'exit 256', 'line 1'],
    ['a tool without input', 'tool append', 'line 1'],
    ['a tool whose input is no object', 'tool append [1]', 'line 1'],
    ['a tool whose input is no JSON', 'tool append {file}', 'line 1'],
    ['words behind history', 'history please', 'line 1'],
    ['parallel without lines', 'parallel\nsay x', 'line 1'],
    ['parallel with another line', 'parallel\n  say x', 'line 2'],
    ['spawn into a session whose id is none', 'spawn a/b\n  say x', 'line 1'],
    ['spawn without lines', 'spawn a', 'line 1'],
    ['an indented line below another one', 'say a\n  say b', 'line 2'],
    ['an indented line at the beginning', '  say b', 'line 1'],
    ['a name of the language itself', 'constructor x', 'line 1'],
  ])('names the line when it meets %s', (_name, text, message) => {
    expect(() => parseScript(text)).toThrow(message);
  });

  it('may be empty, and may come in parts', () => {
    expect(parseScript(' \n\r\n')).toEqual([]);
    expect(
      scriptText([
        { type: 'text', text: 'say a' },
        { type: 'file', url: 'https://x', mediaType: 'text/plain' },
        { type: 'text', text: 'say b' },
      ]),
    ).toBe('say a\nsay b');
  });
});
