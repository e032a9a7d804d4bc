import type { Content, ModelMessage } from '#protocol';
import { Agent, type Tool, type TurnContext } from '#turn-runner';
import type { StepRun } from '../../simulation/invariants.js';

/** What a step of the agent tells before it acts, and where it can be held. */
export interface StepObserver {
  begin(run: StepRun): void;
  /** Where it is there, every model step reads its input first and shows it, with the turn's own message. */
  read?(run: StepRun, input: readonly ModelMessage[], content: Content): void;
  hold(label: string): Promise<void>;
}

/** A model step with two tool calls, the calls, and a last word: every step waits once between its beginning and its end. */
export class SteppingAgent extends Agent {
  constructor(private readonly observer: StepObserver) {
    super();
  }

  override async run(turn: TurnContext): Promise<void> {
    const callIds = ['a', 'b'].map((call) => `${turn.turn.turnId}-${call}`);
    const { toolCalls } = await turn.model(async (step) => {
      await this.think(turn, step.key);
      step.say('let me look');
      return { toolCalls: callIds.map((callId) => ({ callId, name: 'act', input: {} })) };
    });
    const act: Tool = {
      repeatable: () => true,
      run: async (_input, { callId }) => this.act(turn, `tool:${callId}`),
    };
    await turn.tools(toolCalls, new Map([['act', act]]));
    await turn.model(async (step) => {
      await this.think(turn, step.key);
      step.say('done');
      return {};
    });
  }

  private async think(turn: TurnContext, step: string): Promise<void> {
    if (this.observer.read) this.observer.read(runOf(turn, step), await turn.history(), turn.content);
    await this.act(turn, step);
  }

  private async act(turn: TurnContext, step: string): Promise<string> {
    this.observer.begin(runOf(turn, step));
    await this.observer.hold(step);
    return 'ok';
  }
}

function runOf({ session, turn, epoch }: TurnContext, step: string): StepRun {
  return { session, ...turn, step, epoch };
}
