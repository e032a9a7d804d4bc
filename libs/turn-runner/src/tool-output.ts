import { cutBefore } from '#platform';

/** The largest output of a tool that is recorded, in bytes of its JSON. */
const TOOL_OUTPUT_MAX_BYTES = 262_144;

/** A tool's output as it is recorded: plain JSON, bounded. */
export interface ToolOutput {
  output: unknown;
  truncated?: true;
}

/** Makes any value a recordable output. What is not JSON becomes the nearest text; what is too big is cut as text. */
export function toolOutput(value: unknown, maxBytes = TOOL_OUTPUT_MAX_BYTES): ToolOutput {
  const json = jsonOf(value);
  if (Buffer.byteLength(json) <= maxBytes) return { output: JSON.parse(json) as unknown };
  return { output: cut(typeof value === 'string' ? value : json, maxBytes), truncated: true };
}

function jsonOf(value: unknown): string {
  try {
    // Functions, symbols and undefined have no JSON at all.
    return JSON.stringify(value, withoutBigInts) ?? 'null';
  } catch {
    return JSON.stringify(String(value));
  }
}

function withoutBigInts(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value;
}

/** The longest beginning of a text whose JSON fits. Escapes make JSON longer than its text, so it is searched for. */
function cut(text: string, maxBytes: number): string {
  let fits = 0;
  let tooLong = Math.min(text.length, maxBytes) + 1;
  while (tooLong - fits > 1) {
    const middle = (fits + tooLong) >>> 1;
    if (Buffer.byteLength(JSON.stringify(text.slice(0, middle))) <= maxBytes) fits = middle;
    else tooLong = middle;
  }
  return text.slice(0, cutBefore(text, fits));
}
