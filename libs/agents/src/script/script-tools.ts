import { appendFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { isId } from '#protocol';
import type { Clock } from '#platform';
import type { Tool, Toolbox, ToolRun, TurnContext } from '#turn-runner';
import { CALL_LOG_FILE, type CallLog } from './call-log.js';

type Input = Readonly<Record<string, unknown>>;

/** The tools of a scenario. Faulty input is the call's error result. */
export function scriptTools(turn: TurnContext, log: CallLog, clock: Clock, dir: string | null): Toolbox {
  const logged = (tool: Tool): Tool => ({
    repeatable: (input) => tool.repeatable(input),
    run: (input, call) => log.around('tool', `tool:${call.callId}`, () => tool.run(input, call)),
  });
  return new Map([
    ['append', logged(appendTool(turn, clock, dir))],
    ['sleep', logged(sleepTool(clock))],
    ['fail', logged(failTool)],
    ['spawn', logged(spawnTool)],
  ]);
}

/** Appends one line to a file under `dir`, then waits: something that can be seen from outside, and counted. */
function appendTool(turn: TurnContext, clock: Clock, dir: string | null): Tool {
  return {
    repeatable: (input) => (input as Input)['repeatable'] === true,
    async run(input, call) {
      const { file, line, ms = 0 } = input as Input;
      if (dir === null) throw new Error('append needs SCRIPT_DIR');
      if (!isId(file) || file === CALL_LOG_FILE) throw new Error('append needs a plain file name');
      if (typeof line !== 'string') throw new Error('append needs a line');
      mkdirSync(dir, { recursive: true });
      appendFileSync(join(dir, file), `${stamp(turn, call)} ${line.replace(/\s*\n\s*/g, ' ')}\n`);
      await clock.sleep(milliseconds(ms), call.signal);
      return { file };
    },
  };
}

function stamp({ pod, turn }: TurnContext, { attempt, epoch, callId }: ToolRun): string {
  return [pod.podId, turn.turnId, turn.generation, attempt, epoch, callId].join(' ');
}

function sleepTool(clock: Clock): Tool {
  return {
    repeatable: () => true,
    async run(input, { signal }) {
      const { ms, deaf } = input as Input;
      await clock.sleep(milliseconds(ms), deaf === true ? undefined : signal);
      return { slept: ms };
    },
  };
}

const failTool: Tool = {
  repeatable: () => true,
  run: (input) => Promise.reject(new Error(String((input as Input)['message'] ?? 'failed'))),
};

const spawnTool: Tool = {
  repeatable: () => true,
  async run(input, call) {
    const { sessionId, content } = input as Input;
    if (!isId(sessionId)) throw new Error('spawn needs a sessionId');
    if (typeof content !== 'string' || content.trim() === '') throw new Error('spawn needs a content');
    return call.spawn({ sessionId, content });
  },
};

function milliseconds(value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value < 2 ** 31) return value;
  throw new Error(`${JSON.stringify(value)} is not a number of milliseconds`);
}
