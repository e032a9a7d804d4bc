import {
  type Content,
  type Event,
  isTerminal,
  type ModelMessage,
  type Ref,
  type SessionKey,
  type StopAnswer,
} from '#protocol';
import { modelInputFaults } from '#test-kit';
import { Agent, type Tool, type TurnContext } from '#turn-runner';
import type { TurnRow } from '#turn-lifecycle';
import type { Ground } from './ground.js';
import type { Points } from './points.js';
import type { TracePod } from './trace-pod.js';

/** What a turn does, as its message says. */
export interface Plan {
  /** Children, spawned by one reply, by the ids of their sessions. */
  spawns?: Readonly<Record<string, Plan>>;
  /** Tools called by the same reply, by their callIds. */
  acts?: readonly string[];
  /** Whether it waits for its children. */
  awaits?: boolean;
}

/** A step that an agent has begun. */
export interface Begun extends Ref {
  sessionId: string;
  /** `model:1` or `tool:<callId>`. */
  step: string;
}

/** Sweeps in which everything must have come to rest. */
const SWEEPS_MAX = 10;

/** What the agents of all pods did: they tell it before they act. */
export class Diary {
  begun: Begun[] = [];
  /** Model inputs, as each model step was given its own. */
  inputs: { ref: Ref; step: string; messages: readonly ModelMessage[] }[] = [];

  of(turnId: string): string[] {
    return this.begun.filter((each) => each.turnId === turnId).map(({ step }) => step);
  }

  /** The last model input of a turn. */
  lastInput(turnId: string): readonly ModelMessage[] {
    return this.inputs.findLast(({ ref }) => ref.turnId === turnId)?.messages ?? [];
  }
}

/**
 * An agent that does what its message plans: a reply, the tools and spawns in it, perhaps a wait, a last word. Each step
 * is a place of its pod (`step <session> model:1`, `tool <session> <callId>`), and its tools are deaf to a stop.
 */
export class PlannedAgent extends Agent {
  constructor(
    private readonly points: Points,
    private readonly diary: Diary,
  ) {
    super();
  }

  override async run(turn: TurnContext): Promise<void> {
    const { spawns = {}, acts = [], awaits = false } = planOf(turn.content);
    const calls = [
      ...Object.keys(spawns).map((sessionId) => ({ callId: sessionId, name: 'spawn', input: { sessionId } })),
      ...acts.map((callId) => ({ callId, name: 'act', input: {} })),
    ];
    const { toolCalls } = await this.model(turn, 'let me see', calls);
    await turn.tools(toolCalls, this.toolbox(turn, spawns));
    if (awaits) await turn.children();
    if (toolCalls.length > 0) await this.model(turn, 'done', []);
  }

  private model(turn: TurnContext, text: string, toolCalls: { callId: string; name: string; input: unknown }[]) {
    return turn.model(async ({ key, say }) => {
      this.note(turn, key);
      this.diary.inputs.push({ ref: turn.turn, step: key, messages: await turn.history() });
      say(text);
      await this.points.reach(`step ${turn.session.sessionId} ${key}`);
      return { toolCalls };
    });
  }

  private toolbox(turn: TurnContext, spawns: Readonly<Record<string, Plan>>): ReadonlyMap<string, Tool> {
    const { sessionId } = turn.session;
    const act: Tool = {
      repeatable: () => true,
      run: async (_input, { callId }) => {
        this.note(turn, `tool:${callId}`);
        await this.points.reach(`tool ${sessionId} ${callId}`);
        return 'ok';
      },
    };
    const spawn: Tool = {
      repeatable: () => true,
      run: async (_input, { callId, spawn: born }) => {
        this.note(turn, `tool:${callId}`);
        await this.points.reach(`tool ${sessionId} ${callId}`);
        return born({ sessionId: callId, content: JSON.stringify(spawns[callId]) });
      },
    };
    return new Map([
      ['act', act],
      ['spawn', spawn],
    ]);
  }

  private note({ session, turn }: TurnContext, step: string): void {
    this.diary.begun.push({ sessionId: session.sessionId, ...turn, step });
  }
}

/** A message that is no plan, such as a report, is answered with one word. */
function planOf(content: Content): Plan {
  return typeof content === 'string' && content.startsWith('{') ? (JSON.parse(content) as Plan) : {};
}

/** One family of turns and the promises about it: posts, stops and retries through one pod, looks at the ledger. */
export class FamilyStage {
  readonly root: SessionKey;
  readonly rootTurn: string;

  constructor(
    private readonly ground: Ground,
    private readonly diary: Diary,
    /** Takes calls in and runs nothing. */
    private readonly door: TracePod,
  ) {
    this.root = ground.session();
    this.rootTurn = `${this.root.sessionId}-t`;
  }

  /** The session of a child, by its path of names. */
  session(name: string): SessionKey {
    return { account: this.root.account, sessionId: `${this.root.sessionId}.${name}` };
  }

  async post(plan: Plan, turnId = this.rootTurn, pod = this.door, session = this.root): Promise<void> {
    const message = { ...session, turnId, initiator: 'ann', content: JSON.stringify(plan), metadata: null };
    await pod.intake.postMessage({ ...message, mode: 'enqueue' });
  }

  async stop(session = this.root, turnId = this.rootTurn): Promise<StopAnswer> {
    const request = { ...session, turnId, generation: null, by: 'ann', isAdmin: false, reason: null };
    return this.door.intake.stopTurn(request);
  }

  async retry(generation = 1): Promise<void> {
    await this.door.intake.retryTurn({ ...this.root, turnId: this.rootTurn, generation, by: 'ann', isAdmin: false });
  }

  row(turnId = this.rootTurn): Promise<TurnRow | null> {
    return this.ground.turns.find(this.ground.database, this.root.account, turnId);
  }

  events(session = this.root): Promise<Event[]> {
    return this.ground.ledger.events(session, 0, 10_000);
  }

  /** The first turn of a session. */
  async firstOf(session: SessionKey): Promise<TurnRow | null> {
    return (await this.ground.turns.list(session, 0, 1, null))[0] ?? null;
  }

  /** How the tool calls of a session came out. */
  async resultsIn(session: SessionKey): Promise<string[]> {
    return (await this.events(session)).flatMap((event) => (event.type === 'tool.result' ? [event.data.outcome] : []));
  }

  /** The events of a session as `type turnId`, those of a turn's life only. */
  async lives(session = this.root): Promise<string[]> {
    const kept = /^turn\.(queued|started|resumed|absorbed|stop_requested|stopped|completed|failed)$/;
    return (await this.events(session))
      .filter(({ type }) => kept.test(type))
      .map(({ type, turnId }) => `${type} ${turnId}`);
  }

  /** Lets the pods look until every turn of these sessions has ended and no list holds anything. */
  async finish(sessions: readonly SessionKey[], ...pods: TracePod[]): Promise<void> {
    for (let sweeps = 0; ; sweeps++) {
      await this.ground.quiet();
      if (await this.isOver(sessions)) return;
      if (sweeps > SWEEPS_MAX) throw new Error(`not done: ${JSON.stringify(await this.lives())}`);
      for (const session of sessions) await this.ground.behind.letReconcile(session);
      await this.ground.sweep(...pods);
    }
  }

  /** The session takes a further message, which runs to its end with a valid model input. */
  async servesNext(pod: TracePod, session = this.root): Promise<void> {
    const turnId = `${session.sessionId}-next`;
    await this.post({}, turnId, this.door, session);
    await this.finish([session], pod);
    expectEqual((await this.row(turnId))?.state, 'completed', 'the next message');
    expectEqual(modelInputFaults(this.diary.lastInput(turnId)), [], 'the next model input');
  }

  /** What the events of a session say by themselves: no gap, one turn at a time, one end for each, nothing after it. */
  async keepsPromises(session = this.root): Promise<void> {
    const ended = new Set<string>();
    let running: string | null = null;
    for (const [at, event] of (await this.events(session)).entries()) {
      expectEqual(event.seq, at + 1, 'the seq');
      if (event.turnId === null || event.type === 'child.reported' || event.type.startsWith('message.')) continue;
      const turn = `${event.turnId}/${event.generation}`;
      if (ended.has(turn)) throw new Error(`${event.type} of ${turn} after its end`);
      if (event.type === 'turn.started') {
        expectEqual(running, null, `what runs when ${turn} starts`);
        running = turn;
      }
      if (!/^turn\.(completed|failed|stopped|absorbed)$/.test(event.type)) continue;
      ended.add(turn);
      if (running === turn) running = null;
    }
  }

  private async isOver(sessions: readonly SessionKey[]): Promise<boolean> {
    for (const session of sessions) {
      const rows = await this.ground.turns.list(session, 0, 100, null);
      const { pending, processing } = await this.ground.behind.look(session);
      if (pending.length + processing.length > 0 || rows.some(({ state }) => !isTerminal(state))) return false;
    }
    return true;
  }
}

function expectEqual(seen: unknown, expected: unknown, what: string): void {
  const [a, b] = [JSON.stringify(seen), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${what}: ${a} instead of ${b}`);
}
