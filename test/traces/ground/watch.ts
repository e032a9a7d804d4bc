import type { Content, Event, EventType, ModelMessage, SessionKey } from '#protocol';
import { modelInputFaults } from '#test-kit';
import { Agent } from '#turn-runner';
import { Invariants, type StepRun } from '../../simulation/invariants.js';
import { SteppingAgent } from './stepping.agent.js';
import type { Ground } from './ground.js';
import type { Points } from './points.js';

/** Whom the agents of all pods tell what they do, while a test has one. */
let present: Watch | null = null;

/** The agent of every pod: a model step, two tools, a last word, each of them a place of its pod (`step model:1`). */
export function watchedAgent(points: Points): Agent {
  return new SteppingAgent({
    begin: (run) => present?.begin(run),
    hold: async (step) => points.reach(`step ${step}`),
  });
}

/** The same, whose model steps read their input first. */
export function readingAgent(points: Points): Agent {
  return new SteppingAgent({
    begin: (run) => present?.begin(run),
    read: (run, input, content) => present?.read(run, input, content),
    hold: async (step) => points.reach(`step ${step}`),
  });
}

/** An agent whose turns end as soon as they have begun. */
export function shortAgent(): Agent {
  return { run: async () => undefined };
}

/** What has been promised of a session, and of others beside it, checked from its events and from what the agents did. */
export class Watch {
  readonly runs: StepRun[] = [];
  /** What each model step was given. */
  readonly inputs: (StepRun & { input: readonly ModelMessage[] })[] = [];
  private readonly complaints: Error[] = [];
  private readonly invariants: Invariants;

  constructor(
    private readonly ground: Ground,
    private readonly session: SessionKey,
    others: readonly SessionKey[] = [],
  ) {
    this.invariants = new Invariants(ground.ledger, [session, ...others]);
    present = this;
  }

  begin(run: StepRun): void {
    this.runs.push(run);
    try {
      this.invariants.beginStep(run);
    } catch (error) {
      this.complaints.push(error as Error);
    }
  }

  read(run: StepRun, input: readonly ModelMessage[], content: Content): void {
    this.inputs.push({ ...run, input });
    if (!input.some((message) => message.role === 'user' && message.content === content)) {
      this.complaints.push(new Error(`${run.turnId} was given ${String(content)}, its model input another message`));
    }
    for (const fault of modelInputFaults(input)) {
      this.complaints.push(new Error(`the input of ${run.turnId} ${run.step}: ${fault}`));
    }
  }

  /** Throws at the first promise that does not hold so far. */
  async check(): Promise<void> {
    await this.invariants.check();
    const [complaint] = this.complaints;
    if (complaint) throw complaint;
  }

  /** Everything that was accepted has ended, and every promise has held on the way. */
  async isDone(): Promise<boolean> {
    await this.check();
    return this.invariants.allEnded;
  }

  events(): Promise<Event[]> {
    return this.ground.ledger.events(this.session, 0, 10_000);
  }

  /** The turns of all events of this type, in order. */
  async turnsOf(type: EventType): Promise<(string | null)[]> {
    return (await this.events()).filter((event) => event.type === type).map(({ turnId }) => turnId);
  }

  /** How often each step of a turn was begun, by its name. */
  begun(turnId: string): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const run of this.runs) if (run.turnId === turnId) counts[run.step] = (counts[run.step] ?? 0) + 1;
    return counts;
  }
}

/** Every step of the watched agent's turns, begun once. */
export function eachOnce(turnId: string): Record<string, number> {
  return { 'model:1': 1, [`tool:${turnId}-a`]: 1, [`tool:${turnId}-b`]: 1, 'model:2': 1 };
}
