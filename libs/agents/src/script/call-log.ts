import { appendFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { TurnContext } from '#turn-runner';

export const CALL_LOG_FILE = 'calls.jsonl';

/** Writes down what really runs. Whoever runs something hands it over. */
export interface CallLog {
  around<T>(kind: 'model' | 'tool', key: string, run: () => Promise<T>): Promise<T>;
}

export const noCallLog: CallLog = { around: (_kind, _key, run) => run() };

/**
 * The record of every model step and tool call that an attempt has really run: a line at its start and one at its end,
 * however it ended. What is answered from the ledger leaves none. Each line is one synchronous write at the file's end:
 * it stands before the work begins, even if that ends the process, and lines of several pods never mix.
 */
export class FileCallLog implements CallLog {
  private readonly file: string;

  constructor(
    dir: string,
    private readonly turn: TurnContext,
    private readonly nowNs: () => number,
  ) {
    mkdirSync(dir, { recursive: true });
    this.file = join(dir, CALL_LOG_FILE);
  }

  async around<T>(kind: 'model' | 'tool', key: string, run: () => Promise<T>): Promise<T> {
    this.write('start', kind, key);
    try {
      return await run();
    } finally {
      this.write('end', kind, key);
    }
  }

  private write(phase: 'start' | 'end', kind: string, key: string): void {
    const { pod, session, turn, attempt, epoch } = this.turn;
    const line = {
      at: this.nowNs(),
      phase,
      kind,
      pod: pod.podId,
      boot: pod.boot,
      session: session.sessionId,
      turn: turn.turnId,
      generation: turn.generation,
      attempt,
      epoch,
      key,
    };
    appendFileSync(this.file, `${JSON.stringify(line)}\n`);
  }
}
