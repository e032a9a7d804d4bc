import { type Content, isId } from '#protocol';
import { AgentError } from '#turn-runner';
import type { ScriptLine, ToolLine } from './script-line.js';

/** A number of a scenario may not be larger: more ms than a timer takes, more bytes than anybody wants. */
const MAX_NUMBER = 2 ** 31 - 1;
const TOOL_NAME = /^[A-Za-z0-9._-]{1,64}$/;

/** A line of the content with the indented lines below it. Blank lines are left out. */
interface Block {
  /** Counted from 1. */
  number: number;
  text: string;
  indented: { number: number; text: string }[];
}

type Reader = (rest: string, block: Block) => ScriptLine | null;

/** What follows each first word. Null: not understood. */
const READERS = new Map<string, Reader>([
  ['say', (text) => (text === '' ? null : { does: 'say', text })],
  ['pace', (rest) => withNumber(rest, (ms) => ({ does: 'pace', ms }))],
  ['sleep', (rest) => withNumber(rest, (ms) => ({ does: 'sleep', ms }))],
  ['history', (rest) => (rest === '' ? { does: 'history' } : null)],
  ['tool', (rest) => withTool(rest, (call) => ({ does: 'tools', calls: [call] }))],
  ['parallel', (rest, block) => (rest === '' ? parallel(block) : null)],
  ['spawn', (rest, block) => (isId(rest) ? { does: 'spawn', sessionId: rest, content: unindented(block) } : null)],
  ['await', (rest) => (rest === '' ? { does: 'await' } : null)],
  ['flaky', readFlaky],
  ['flood', (rest) => withNumber(rest, (bytes) => ({ does: 'flood', bytes }))],
  ['block', (rest) => withNumber(rest, (ms) => ({ does: 'block', ms }))],
  ['exit', (rest) => withNumber(rest, (code) => (code <= 255 ? { does: 'exit', code } : null))],
  ['throw', (text) => (text === '' ? null : { does: 'throw', text })],
]);
const WITH_BLOCK = new Set(['parallel', 'spawn']);

/** A message's content as the scenario it holds: its text parts, joined. */
export function scriptText(content: Content): string {
  if (typeof content === 'string') return content;
  return content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

/** @throws AgentError that names the first line that is not understood */
export function parseScript(text: string): ScriptLine[] {
  return blocksOf(text).map((block) => {
    const [word, rest] = splitWord(block.text);
    if (WITH_BLOCK.has(word) !== block.indented.length > 0) {
      const stray = block.indented[0];
      throw stray ? notUnderstood(stray.number, stray.text) : notUnderstood(block.number, block.text);
    }
    const line = READERS.get(word)?.(rest, block);
    if (!line) throw notUnderstood(block.number, block.text);
    return line;
  });
}

function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  text.split(/\r?\n/).forEach((line, at) => {
    if (line.trim() === '') return;
    const number = at + 1;
    if (!/^\s/.test(line)) {
      blocks.push({ number, text: line.trimEnd(), indented: [] });
      return;
    }
    const above = blocks.at(-1);
    if (!above) throw notUnderstood(number, line);
    above.indented.push({ number, text: line });
  });
  return blocks;
}

function parallel(block: Block): ScriptLine {
  const calls = block.indented.map(({ number, text }) => {
    const [word, rest] = splitWord(text.trim());
    const call = word === 'tool' ? readTool(rest) : null;
    if (!call) throw notUnderstood(number, text);
    return call;
  });
  return { does: 'tools', calls };
}

/** The indented lines with the first one's indentation taken off each, so that deeper ones stay indented. */
function unindented({ indented }: Block): string {
  const depth = /^\s*/.exec(indented[0]!.text)![0].length;
  return indented.map(({ text }) => text.slice(Math.min(depth, text.length - text.trimStart().length))).join('\n');
}

function readFlaky(rest: string): ScriptLine | null {
  const [count, text] = splitWord(rest);
  return text === '' ? null : withNumber(count, (times) => ({ does: 'flaky', times, text }));
}

function withTool(rest: string, make: (call: ToolLine) => ScriptLine): ScriptLine | null {
  const call = readTool(rest);
  return call && make(call);
}

function readTool(rest: string): ToolLine | null {
  const [name, json] = splitWord(rest);
  if (!TOOL_NAME.test(name)) return null;
  try {
    const input = JSON.parse(json) as unknown;
    return typeof input === 'object' && input !== null && !Array.isArray(input) ? { name, input } : null;
  } catch {
    return null;
  }
}

function withNumber(text: string, make: (value: number) => ScriptLine | null): ScriptLine | null {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Infinity;
  return value <= MAX_NUMBER ? make(value) : null;
}

function splitWord(text: string): [word: string, rest: string] {
  const space = text.search(/\s/);
  return space < 0 ? [text, ''] : [text.slice(0, space), text.slice(space).trimStart()];
}

function notUnderstood(number: number, text: string): AgentError {
  return new AgentError(`line ${number} of the script is not understood: ${text.trim().slice(0, 200)}`);
}
