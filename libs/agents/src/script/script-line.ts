import type { Id } from '#protocol';

export interface ToolLine {
  name: string;
  input: unknown;
}

/** One line of a scenario, with the indented lines that belong to it. */
export type ScriptLine =
  | { does: 'say'; text: string }
  | { does: 'pace'; ms: number }
  | { does: 'sleep'; ms: number }
  | { does: 'history' }
  /** One `tool` line, or those of a `parallel` block: the calls of one model step. */
  | { does: 'tools'; calls: ToolLine[] }
  | { does: 'spawn'; sessionId: Id; content: string }
  | { does: 'await' }
  | { does: 'flaky'; times: number; text: string }
  | { does: 'flood'; bytes: number }
  | { does: 'block'; ms: number }
  | { does: 'exit'; code: number }
  | { does: 'throw'; text: string };
