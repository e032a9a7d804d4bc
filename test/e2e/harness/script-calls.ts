import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** One step of the script agent, as its start and its end in calls.jsonl tell it. */
export interface ScriptCall {
  kind: 'model' | 'tool';
  pod: string;
  boot: string;
  session: string;
  turn: string;
  generation: number;
  attempt: number;
  epoch: number;
  key: string;
  /** On the machine's monotonic clock, in ns; `endNs` null: it never ended. */
  startNs: bigint;
  endNs: bigint | null;
}

interface Line extends Omit<ScriptCall, 'startNs' | 'endNs'> {
  at: number | string;
  phase: 'start' | 'end';
}

export function readCalls(dir: string): ScriptCall[] {
  const lines = readLines(join(dir, 'calls.jsonl')).map((line) => JSON.parse(line) as Line);
  const calls: ScriptCall[] = [];
  const open = new Map<string, ScriptCall>();
  for (const { at, phase, ...step } of lines) {
    const name = JSON.stringify([step.session, step.turn, step.generation, step.attempt, step.key]);
    if (phase === 'start') {
      const call = { ...step, startNs: BigInt(at), endNs: null };
      calls.push(call);
      open.set(name, call);
    } else {
      const call = open.get(name);
      if (!call) throw new Error(`${name} ended without a start`);
      call.endNs = BigInt(at);
      open.delete(name);
    }
  }
  return calls.sort((a, b) => Number(a.startNs - b.startNs));
}

/** The whole lines of a file; one that is being written is left out. */
export function readLines(file: string): string[] {
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [];
}
