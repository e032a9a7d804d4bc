import type { EventData, SessionKey, ToolCall } from '#protocol';
import type { Clock, Randomness, StepPoints } from '#platform';
import { AgentError, type Tool, type Toolbox, type ToolRun } from './agent.js';
import type { AttemptExit } from './attempt-exit.js';
import type { ChildDoor } from './children.js';
import { untilAnswered } from './ledger-outage.js';
import type { StepRecorder } from './step-recorder.js';
import { type ToolOutput, toolOutput } from './tool-output.js';
import type { TurnProgress } from './turn-progress.js';

export interface ToolDeps {
  recorder: StepRecorder;
  progress: TurnProgress;
  exit: AttemptExit;
  clock: Clock;
  randomness: Randomness;
  steps: StepPoints;
  childDoor: ChildDoor;
}

/** What every run of a call by this attempt has in common. */
export type RunFacts = Pick<ToolRun, 'epoch' | 'attempt'> & SessionKey & { turnId: string; generation: number };

type Result = EventData['tool.result'];

/**
 * Runs tool calls: recorded before they run, all at once, each result recorded as it settles.
 *
 * Keeps I4: a call whose result is recorded is answered from the record; one that an earlier attempt left without a
 * result runs again only if it was recorded as repeatable, under the same idempotency key, and else becomes
 * `outcome_unknown`.
 */
export class ToolBatch {
  private readonly toRun: ToolCall[] = [];

  constructor(
    private readonly deps: ToolDeps,
    private readonly facts: RunFacts,
    private readonly toolbox: Toolbox,
  ) {}

  /** Records the calls that are new and the results that cannot be had any more. One append, none when all is there. */
  async issue(calls: readonly ToolCall[]): Promise<void> {
    const { recorder, progress } = this.deps;
    const drafts = [];
    for (const call of calls) {
      if (progress.results.has(call.callId)) continue;
      const earlier = progress.calls.get(call.callId);
      if (earlier && !earlier.repeatable) {
        drafts.push(recorder.draft('tool.result', { callId: call.callId, outcome: 'outcome_unknown', output: null }));
        continue;
      }
      if (!earlier) drafts.push(recorder.draft('tool.call', { ...call, repeatable: this.isRepeatable(call) }));
      this.toRun.push(call);
    }
    if (drafts.length > 0) await recorder.record(drafts);
  }

  /** Starts every call that is to run. Each promise settles when its result is recorded, or cannot be any more. */
  start(): Promise<void>[] {
    return this.toRun.map((call) => this.runOne(call));
  }

  private async runOne(call: ToolCall): Promise<void> {
    const { exit, steps, recorder } = this.deps;
    const facts = { turnId: this.facts.turnId, callId: call.callId };
    await steps.reach('tool.before', facts);
    await exit.whenCertain();
    exit.assertMayBegin();
    const held = steps.reach('tool.checked', facts);
    if (held) await held;
    const result = await this.settle(call);
    await recorder.record([recorder.draft('tool.result', result)]);
  }

  private async settle(call: ToolCall): Promise<Result> {
    const { callId } = call;
    const tool = this.toolbox.get(call.name);
    if (!tool) return { callId, outcome: 'error', output: { message: `there is no tool named ${call.name}` } };
    try {
      return { callId, outcome: 'ok', ...toolOutput(await tool.run(call.input, this.runFacts(callId))) };
    } catch (error) {
      const outcome = this.deps.exit.signal.aborted ? 'interrupted' : 'error';
      return { callId, outcome, ...failure(error) };
    }
  }

  private runFacts(callId: string): ToolRun {
    const { turnId, generation, epoch, attempt } = this.facts;
    const idempotencyKey = `${turnId}/${generation}/${callId}`;
    const spawn: ToolRun['spawn'] = (child) => this.spawn(callId, child);
    return { callId, idempotencyKey, epoch, attempt, signal: this.deps.exit.signal, spawn };
  }

  /** The parent counts the child as its own from here on, also when it had been accepted without our hearing of it. */
  private async spawn(
    callId: string,
    { sessionId, content }: Parameters<ToolRun['spawn']>[0],
  ): ReturnType<ToolRun['spawn']> {
    const { childDoor, exit, progress } = this.deps;
    const { epoch, ...parent } = this.facts;
    const { child } = await untilAnswered(this.deps, exit.signal, async () => {
      exit.assertMayBegin();
      return childDoor.spawnChild({ parent, epoch, callId, sessionId, content });
    });
    progress.children.set(callId, child);
    return child;
  }

  private isRepeatable(call: ToolCall): boolean {
    const tool: Tool | undefined = this.toolbox.get(call.name);
    try {
      return tool?.repeatable(call.input) ?? false;
    } catch {
      return false;
    }
  }
}

function failure(error: unknown): ToolOutput {
  return toolOutput({ message: error instanceof Error ? error.message : String(error) });
}

/** @throws AgentError unless every call was issued by a recorded reply, and none of them twice */
export function assertIssued(calls: readonly ToolCall[], progress: TurnProgress, begun: ReadonlySet<string>): void {
  const seen = new Set<string>();
  for (const { callId } of calls) {
    if (!progress.hasIssued(callId)) throw new AgentError(`no recorded reply has issued the tool call ${callId}`);
    if (seen.has(callId) || begun.has(callId)) throw new AgentError(`the tool call ${callId} was already made`);
    seen.add(callId);
  }
}
