import type { Event } from '#protocol';
import type { ScriptCall } from '../../e2e/harness/script-calls.js';

/** A step that really started although it was, or was to be, recorded by another start. */
export interface Repetition {
  call: ScriptCall;
  /** The attempt whose result stands in the ledger. */
  recordedBy: number;
  /** By an attempt older than the one whose result stands: all that I4 allows, and only to a process that stalled. */
  isLate: boolean;
}

/** Every start of a step that the ledger has as done, other than the one whose result stands, that came after that one. */
export function repetitions(events: readonly Event[], calls: readonly ScriptCall[]): Repetition[] {
  return recordedSteps(events).flatMap(({ turn, key, attempt: recordedBy }) => {
    const starts = calls.filter((call) => call.turn === turn && call.key === key);
    const standing = starts.find((call) => call.attempt === recordedBy);
    const isRepeated = (call: ScriptCall): boolean =>
      call !== standing && (call.attempt >= recordedBy || isBehind(call, standing));
    return starts.filter(isRepeated).map((call) => ({ call, recordedBy, isLate: call.attempt < recordedBy }));
  });
}

/** Without a start of its own a result was only written down, as that of a call whose outcome nobody knows. */
function isBehind(call: ScriptCall, standing: ScriptCall | undefined): boolean {
  return typeof standing?.endNs === 'bigint' && call.startNs > standing.endNs;
}

interface RecordedStep {
  turn: string;
  key: string;
  attempt: number;
}

function recordedSteps(events: readonly Event[]): RecordedStep[] {
  const attempts = new Map<string, number>();
  const steps: RecordedStep[] = [];
  for (const { turnId: turn, type, data } of events) {
    if (turn === null) continue;
    if (type === 'turn.started' || type === 'turn.resumed') attempts.set(turn, data.attempt);
    else if (type === 'model.message') steps.push({ turn, key: data.step, attempt: data.attempt });
    else if (type === 'tool.result') steps.push({ turn, key: `tool:${data.callId}`, attempt: attempts.get(turn)! });
  }
  return steps;
}
