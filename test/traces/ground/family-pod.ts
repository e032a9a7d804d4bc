import { ButlerError, type Id, type Mode, type SessionKey, sessionName } from '#protocol';
import type { Database } from '#platform';
import { Agent, type Tool, type TurnContext } from '#turn-runner';
import type { SeededRandom } from '../../simulation/seeded-random.js';
import type { StepObserver } from './stepping.agent.js';
import { StormPod } from './storm-pod.js';

/** A user's turn, one below it, and one below that. */
const DEPTH = 3;
const KIDS = ['a', 'b'];
/** How many of the last turns are stopped, retried and edited; few, so that many meet. */
const RECENT = 24;
/** How often somebody looks, between two steps, what has been said and stopped. */
const LOOKS = 0.3;
const LOOKS_FOR_WORK = 12;
/** How often a pod takes a session over that another one serves. */
const ABROAD = 0.1;
/** Long enough for children to end while their parent still runs. */
const STEPS = 4;
/** How long a parent waits for its children before its pod lets go of it, so that all may wait at once. */
const WAIT_MS = 1_000;

interface Known {
  sessionId: Id;
  turnId: Id;
}

/** What all pods of a storm over families share: the sessions, and the turns that anybody may act on. */
export class Kin {
  readonly account = 'kin';
  readonly sessions: SessionKey[];
  readonly pods: FamilyPod[] = [];
  /** Nothing new happens any more; what is left runs to its end, without waiting. */
  isOver = false;
  private readonly recent: Known[] = [];

  /** @param families how many users' sessions there are, each with those of its children and grandchildren */
  constructor(
    private readonly random: SeededRandom,
    families: number,
  ) {
    const tree = (sessionId: Id, depth: number): Id[] => [
      sessionId,
      ...(depth === DEPTH ? [] : KIDS.flatMap((kid) => tree(`${sessionId}.${kid}`, depth + 1))),
    ];
    const names = Array.from({ length: families }, (_, at) => tree(`s${at}`, 1)).flat();
    this.sessions = names.map((sessionId) => ({ account: this.account, sessionId }));
  }

  /** A user's session. */
  top(): SessionKey {
    return this.random.pick(this.sessions.filter(({ sessionId }) => !sessionId.includes('.')));
  }

  /** Where a turn of this session spawns; nowhere at the bottom. */
  below({ sessionId }: SessionKey): Id[] {
    if (sessionId.split('.').length === DEPTH) return [];
    return KIDS.filter(() => this.random.chance(0.6)).map((kid) => `${sessionId}.${kid}`);
  }

  met(known: Known): void {
    this.recent.push(known);
    if (this.recent.length > RECENT) this.recent.shift();
  }

  any(): Known | null {
    return this.recent.length > 0 ? this.random.pick(this.recent) : null;
  }

  /** Whether this attempt may wait for its turn's children: somebody ends the wait. */
  mayWait({ pod: { podId }, turn }: TurnContext): boolean {
    return !this.isOver && this.pods.find(({ name }) => name === podId)!.leaveAfter(turn.turnId, WAIT_MS);
  }

  async look(): Promise<void> {
    if (this.random.chance(LOOKS)) await Promise.all(this.pods.map((pod) => pod.look()));
  }
}

/** Spawns, and goes on for some steps, at which it is stopped and takes in what has been said. */
class SpawningAgent extends Agent {
  constructor(
    private readonly kin: Kin,
    private readonly observer: StepObserver,
  ) {
    super();
  }

  override async run(turn: TurnContext): Promise<void> {
    const spawns = turn.kind !== 'report';
    const { toolCalls } = await turn.model(async ({ key }) => {
      await this.hold(turn, key);
      const sessions = spawns ? this.kin.below(turn.session) : [];
      return {
        toolCalls: sessions.map((sessionId, at) => ({ callId: `call-${at}`, name: 'spawn', input: sessionId })),
      };
    });
    if (toolCalls.length > 0) await turn.tools(toolCalls, new Map([['spawn', this.spawn]]));
    if (toolCalls.length > 0 && this.kin.mayWait(turn)) await turn.children();
    for (let at = 0; at < (spawns ? STEPS : 1); at++) {
      await turn.model(async (step) => {
        await this.hold(turn, step.key);
        step.say('well');
        return {};
      });
    }
  }

  private readonly spawn: Tool = {
    repeatable: () => true,
    run: async (input, call) => {
      const child = await call.spawn({ sessionId: input as Id, content: 'go' });
      this.kin.met(child);
      return child;
    },
  };

  private async hold({ session, turn, epoch }: TurnContext, step: string): Promise<void> {
    this.observer.begin({ session, ...turn, step, epoch });
    await this.observer.hold(step);
    await this.kin.look();
  }
}

/** A pod in a storm over families: beside what runs in them, all that users do to their turns. */
export class FamilyPod extends StormPod {
  constructor(
    name: string,
    database: Database,
    random: SeededRandom,
    private readonly kin: Kin,
  ) {
    super(name, database, random, (observer) => new SpawningAgent(kin, observer));
    kin.pods.push(this);
  }

  /** Whoever runs a turn here hears what has been said to it and whether it is to stop. */
  async look(): Promise<void> {
    await Promise.all([this.grouped.runner.look(), this.alone.runner.look()]);
  }

  /** A user's message, or one of the last turns' again. */
  async say(): Promise<void> {
    const again = this.random.chance(0.2) ? this.kin.any() : null;
    const known = again ?? { ...this.kin.top(), turnId: `t-${this.random.id()}` };
    this.kin.met(known);
    const mode: Mode = this.random.pick(['enqueue', 'enqueue', 'steer', 'interrupt']);
    const message = { ...this.by(known), initiator: 'ann', content: 'go', mode, metadata: null };
    await this.answered(`post ${mode}`, this.grouped.intake.postMessage(message));
  }

  /** Stops one of the last turns, or one whose message may come yet; sometimes its next generation. */
  async stop(): Promise<void> {
    const known = (this.random.chance(0.85) && this.kin.any()) || {
      ...this.kin.top(),
      turnId: `t-${this.random.id()}`,
    };
    this.kin.met(known);
    const next = this.random.chance(0.15) ? (await this.generation(known)) + 1 : null;
    const stop = this.grouped.intake.stopTurn({ ...this.by(known), generation: next, reason: null });
    await this.answered('stop', stop, ({ state, already }) => (already ? 'already' : state));
  }

  async retry(): Promise<void> {
    const known = this.kin.any();
    if (!known) return;
    const generation = (await this.generation(known)) || 1;
    await this.answered('retry', this.grouped.intake.retryTurn({ ...this.by(known), generation }));
  }

  async edit(): Promise<void> {
    const known = this.kin.any();
    if (!known) return;
    await this.answered(
      'edit',
      this.grouped.intake.editMessage({ ...this.by(known), content: `go ${this.random.id()}` }),
    );
  }

  /** One attempt in a session where something waits or runs, if one is soon found. */
  async work(alone: boolean): Promise<void> {
    for (let look = 0; look < LOOKS_FOR_WORK; look++) {
      const session = this.random.pick(this.random.chance(ABROAD) ? this.kin.sessions : this.own());
      if (this.busy.has(sessionName(session))) continue;
      if ((await this.turns.live(this.database, session)).length > 0) return this.run(session, alone);
    }
  }

  /** The sessions that this pod serves when nobody interferes. */
  private own(): SessionKey[] {
    const { sessions, pods } = this.kin;
    return sessions.filter((_, at) => pods[at % pods.length] === this);
  }

  /** Runs until nothing lives any more: what runs spawns, and what has ended puts its report in line. */
  async drainAll(): Promise<void> {
    this.kin.isOver = true;
    for (let left = true; left;) {
      await Promise.all(this.kin.sessions.map((session) => this.drain(session)));
      const lines = await Promise.all(this.kin.sessions.map((session) => this.turns.live(this.database, session)));
      left = lines.some((line) => line.length > 0);
    }
  }

  private by({ sessionId, turnId }: Known) {
    return { account: this.kin.account, sessionId, turnId, by: 'ann', isAdmin: false };
  }

  private async generation({ turnId }: Known): Promise<number> {
    return (await this.turns.find(this.database, this.kin.account, turnId))?.generation ?? 0;
  }

  /** A refusal is an answer; anything else that is thrown fails the test. */
  private async answered<T>(what: string, call: Promise<T>, tell: (answer: T) => string = () => 'done'): Promise<void> {
    try {
      this.note(`${what}: ${tell(await call)}`);
    } catch (error) {
      if (!(error instanceof ButlerError)) throw error;
      this.note(`${what}: ${error.code}`);
    }
  }
}
