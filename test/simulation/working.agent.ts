import type { Content, ModelMessage, ToolCall } from '#protocol';
import { Agent, AgentError, type Tool, type TurnContext } from '#turn-runner';
import type { StepRun } from './invariants/step-run.js';
import { type Child, parseWork, spawnCallId } from './work.js';

/** Whom the agent tells what it is about to do, and who lets it wait. */
export interface AgentWorld {
  begin(run: StepRun): void;
  read(run: StepRun, input: readonly ModelMessage[], content: Content): void;
  /** How long a step takes; ends at once when the signal aborts. */
  hold(run: StepRun, signal: AbortSignal): Promise<void>;
  /** The process ends in the middle of a step. */
  die(run: StepRun): void;
}

/** Does what the message's content says; see `Work`. Every model step reads its input first. */
export class WorkingAgent extends Agent {
  constructor(private readonly world: AgentWorld) {
    super();
  }

  override async run(turn: TurnContext): Promise<void> {
    const work = parseWork(turn.content);
    const { turnId } = turn.turn;
    if (work.do === 'act') {
      const calls = ['a', 'b'].map((name) => ({ callId: `${turnId}-${name}`, name, input: {} }));
      await turn.tools(
        await this.think(turn, calls),
        new Map([this.tool(turn, 'a', true), this.tool(turn, 'b', false)]),
      );
    }
    if (work.do === 'spawn') {
      const calls = work.children.map((_, nth) => ({
        callId: spawnCallId(turnId, nth),
        name: 'spawn',
        input: { nth },
      }));
      await turn.tools(await this.think(turn, calls), new Map([['spawn', spawner(work.children)]]));
      if (work.awaits) await turn.children();
    }
    if (work.do === 'die') await turn.model(async ({ key }) => this.end(runOf(turn, key)));
    await this.think(turn, []);
    if (work.do === 'fail') throw new AgentError('it was to fail');
  }

  private async think(turn: TurnContext, toolCalls: ToolCall[]): Promise<ToolCall[]> {
    const reply = await turn.model(async (step) => {
      const run = runOf(turn, step.key);
      this.world.read(run, await turn.history(), turn.content);
      this.world.begin(run);
      await this.world.hold(run, step.signal);
      step.say(`${step.key} of ${turn.turn.turnId}`);
      return { toolCalls };
    });
    return reply.toolCalls;
  }

  private tool(turn: TurnContext, name: string, isRepeatable: boolean): [string, Tool] {
    const tool: Tool = {
      repeatable: () => isRepeatable,
      run: async (_input, { callId, signal }) => {
        const run = { ...runOf(turn, `tool:${callId}`), isRepeatable };
        this.world.begin(run);
        await this.world.hold(run, signal);
        return 'ok';
      },
    };
    return [name, tool];
  }

  private async end(run: StepRun): Promise<never> {
    this.world.begin(run);
    this.world.die(run);
    return new Promise(() => undefined);
  }
}

/** A call that spawned is repeated under the same key: it is the same child. */
function spawner(children: readonly Child[]): Tool {
  return {
    repeatable: () => true,
    run: async (input, call) => {
      const { sessionId, work } = children[(input as { nth: number }).nth]!;
      return call.spawn({ sessionId, content: JSON.stringify(work) });
    },
  };
}

function runOf({ session, turn, epoch }: TurnContext, step: string): StepRun {
  return { session, ...turn, step, epoch };
}
