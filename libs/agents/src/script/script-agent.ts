import type { Clock } from '#platform';
import { Agent, AgentError, type ModelReply, type ModelStep, type RecordedReply, type TurnContext } from '#turn-runner';
import { type CallLog, FileCallLog, noCallLog } from './call-log.js';
import type { ScriptLine, ToolLine } from './script-line.js';
import { parseScript, scriptText } from './script-parser.js';
import { scriptTools } from './script-tools.js';

export interface ScriptOptions {
  /** SCRIPT_DIR: where it writes. Null: nowhere. */
  dir: string | null;
  /** Ends the process at once. */
  exit(code: number): void;
  /** Monotonic ns that several processes of a machine share. */
  nowNs(): number;
}

/** The longest text of one step of a flood, and what it streams at a time. */
const FLOOD_STEP_BYTES = 1024 * 1024;
const FLOOD_CHUNK = 'flood of words '.repeat(1100).slice(0, 16 * 1024);
const OVERLOADED = { code: 'model_overloaded', retryable: true };

/**
 * Plays the scenario that the message holds, one step a line. For tests, demos, benchmarks and fault drills. It keeps no
 * state but what the context records, so every attempt issues the same steps.
 */
export class ScriptAgent extends Agent {
  constructor(
    private readonly clock: Clock,
    private readonly options: ScriptOptions,
  ) {
    super();
  }

  async run(turn: TurnContext): Promise<void> {
    // What a child has to say when its parent did not wait for it is no scenario.
    if (turn.kind === 'report') return;
    const script = parseScript(scriptText(turn.content));
    const { dir, nowNs } = this.options;
    const log = dir === null ? noCallLog : new FileCallLog(dir, turn, nowNs);
    const play = new ScriptPlay(turn, log, this.clock, this.options);
    for (const line of script) await play.line(line);
  }
}

/** One attempt at one scenario. */
class ScriptPlay {
  private paceMs = 0;

  constructor(
    private readonly turn: TurnContext,
    private readonly log: CallLog,
    private readonly clock: Clock,
    private readonly options: ScriptOptions,
  ) {}

  async line(line: ScriptLine): Promise<void> {
    switch (line.does) {
      case 'say':
        await this.model((step) => this.say(step, line.text));
        return;
      case 'pace':
        this.paceMs = line.ms;
        return;
      case 'sleep':
        await this.model((step) => this.clock.sleep(line.ms, step.signal));
        return;
      case 'history':
        await this.model(async (step) => step.say(JSON.stringify(await this.turn.history())));
        return;
      case 'tools':
        return this.tools(line.calls);
      case 'spawn':
        return this.tools([{ name: 'spawn', input: { sessionId: line.sessionId, content: line.content } }]);
      case 'await':
        return this.turn.children();
      case 'flaky':
        await this.model((step) => this.flaky(step, line.times, line.text));
        return;
      case 'flood':
        return this.flood(line.bytes);
      case 'block':
        await this.model(async () => this.block(line.ms));
        return;
      case 'exit':
        await this.model(() => this.exit(line.code));
        return;
      case 'throw':
        throw new AgentError(line.text);
    }
  }

  private model(work: (step: ModelStep) => Promise<void | ModelReply>): Promise<RecordedReply> {
    return this.turn.model((step) => this.log.around('model', step.key, async () => (await work(step)) ?? {}));
  }

  private async say(step: ModelStep, text: string): Promise<void> {
    const words = text.split(/(?<=\s)(?=\S)/);
    for (const [at, word] of words.entries()) {
      if (at > 0 && this.paceMs > 0) await this.clock.sleep(this.paceMs, step.signal);
      step.say(word);
    }
  }

  private async tools(calls: readonly ToolLine[]): Promise<void> {
    const reply = await this.model(async ({ key }) => ({
      toolCalls: calls.map((call, at) => ({ callId: `${key.replace(':', '-')}-${at + 1}`, ...call })),
    }));
    await this.turn.tools(reply.toolCalls, scriptTools(this.turn, this.log, this.clock, this.options.dir));
  }

  /** As an agent whose model is overloaded. */
  private async flaky(step: ModelStep, times: number, text: string): Promise<void> {
    if (step.try <= times) throw new AgentError(`failure ${step.try} of ${times}`, OVERLOADED);
    await this.say(step, text);
  }

  private async flood(bytes: number): Promise<void> {
    for (let left = bytes; left > 0; left -= FLOOD_STEP_BYTES) {
      await this.model((step) => this.pour(step, Math.min(left, FLOOD_STEP_BYTES)));
    }
  }

  private async pour(step: ModelStep, bytes: number): Promise<void> {
    for (let left = bytes; left > 0; left -= FLOOD_CHUNK.length) {
      step.say(FLOOD_CHUNK.slice(0, left));
      // Others get their turn, and a stop is heard.
      await this.clock.sleep(0, step.signal);
    }
  }

  /** Nothing else of this process happens meanwhile: no renewal, no answer. */
  private block(ms: number): void {
    const untilMs = this.clock.monotonicMs() + ms;
    while (this.clock.monotonicMs() < untilMs);
  }

  private exit(code: number): Promise<never> {
    this.options.exit(code);
    return new Promise(() => undefined);
  }
}
