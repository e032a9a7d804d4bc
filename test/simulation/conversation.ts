import { type Accepted, ButlerError, type ErrorCode, type Mode, type SessionKey } from '#protocol';
import { type Database, UnavailableError } from '#platform';
import { type Faults, Simulation } from './simulation.js';
import type { SimulatedPod } from './simulated-pod.js';

/** A message that a client has posted or is about to. */
interface Message {
  session: SessionKey;
  turnId: string;
  mode: Mode;
  /** The highest generation that the client has heard of. */
  generation: number;
  edits: number;
  /** The first answer. */
  accepted: Accepted | null;
}

/** Something that is asked of one pod; it can be asked again. */
interface Act {
  kind: 'post' | 'edit' | 'stop' | 'retry';
  message: Message;
  ask(pod: SimulatedPod): Promise<void>;
  pod: string | null;
}

export interface ConversationReport extends Faults {
  seed: number;
  steps: number;
  /** How often each thing was answered, by its kind or by the refusal's code, and how turns ended. */
  counts: Record<string, number>;
}

const SESSIONS = 2;
const ACTS = 14;
const CHANCES: readonly Act['kind'][] = ['post', 'post', 'post', 'post', 'edit', 'edit', 'stop', 'retry'];
const MODES: readonly Mode[] = ['enqueue', 'steer', 'steer', 'steer', 'interrupt', 'interrupt', 'reject'];
const REFUSALS: Record<Act['kind'], readonly ErrorCode[]> = {
  post: ['turn_stopped', 'session_busy'],
  edit: ['not_found', 'turn_ended'],
  stop: ['stale_generation'],
  retry: ['not_found', 'turn_ended', 'stale_generation', 'turn_stopped'],
};
const ENDS = ['turn.completed', 'turn.absorbed', 'turn.stopped'] as const;

/** A program of messages of all modes, edits, stops, retries and resends, said to sessions that work meanwhile. */
export class Conversation extends Simulation {
  private readonly messages: Message[] = [];
  private readonly underWay = new Set<Act>();
  private readonly again: Act[] = [];
  private readonly counts: Record<string, number> = {};
  private acts = ACTS;

  constructor(seed: number, database: Database, faults: Faults) {
    const account = `talk-${seed}`;
    const sessions = Array.from({ length: SESSIONS }, (_, at) => ({ account, sessionId: `ses-${at}` }));
    super(seed, database, { sessions, faults, readsInput: true });
  }

  /** @throws Error with the seed and the trace at the first promise that does not hold */
  async run(): Promise<ConversationReport> {
    const steps = await this.play();
    this.invariants.accountForAll();
    for (const type of ENDS) this.count(type, this.invariants.countEnded(type));
    return { seed: this.seed, steps, counts: this.counts, ...this.befell };
  }

  protected override isOver(): boolean {
    const { acts, again, underWay, invariants } = this;
    return (
      acts + again.length + underWay.size === 0 &&
      invariants.allEnded &&
      this.messages.every(({ accepted, turnId }) => !accepted || invariants.hasAccepted(turnId))
    );
  }

  protected override mayInterfere(): void {
    const { random } = this;
    if (this.again.length > 0 && random.chance(0.05)) return this.ask(this.again.shift()!);
    if (this.acts === 0 || !random.chance(0.02)) return;
    this.acts--;
    this.ask(this.nextAct());
  }

  /** Asks elsewhere, or gives up. */
  protected override onCrash(name: string): void {
    for (const act of this.underWay) {
      if (act.pod !== name) continue;
      this.underWay.delete(act);
      if (this.random.chance(0.7)) this.again.push(act);
    }
  }

  private ask(act: Act): void {
    const [name, pod] = this.random.pick([...this.pods]);
    act.pod = name;
    this.underWay.add(act);
    this.world.trace.push(`-- ${act.kind} ${act.message.mode} ${act.message.turnId} at ${name}`);
    act.ask(pod).then(
      () => this.settle(act, act.kind),
      (error: unknown) => {
        if (error instanceof UnavailableError) this.again.push(act);
        else if (!(error instanceof ButlerError && REFUSALS[act.kind].includes(error.code))) this.fail(error as Error);
        this.settle(act, error instanceof ButlerError ? error.code : 'unavailable');
      },
    );
  }

  private settle(act: Act, outcome: string): void {
    this.underWay.delete(act);
    this.count(outcome, 1);
  }

  private count(what: string, by: number): void {
    this.counts[what] = (this.counts[what] ?? 0) + by;
  }

  private nextAct(): Act {
    const { random } = this;
    const kind = random.pick(CHANCES);
    const isNew = this.messages.length === 0 || (kind === 'post' && random.chance(0.8)) || random.chance(0.05);
    const message = isNew ? this.newMessage() : random.pick(this.messages);
    return { ...this.actOn(kind, message), kind, message, pod: null };
  }

  private newMessage(): Message {
    const session = this.random.pick(this.sessions);
    const turnId = `${session.account}-t${this.messages.length}`;
    const mode = this.random.pick(MODES);
    const message: Message = { session, turnId, mode, generation: 1, edits: 0, accepted: null };
    this.messages.push(message);
    return message;
  }

  private actOn(kind: Act['kind'], message: Message): Pick<Act, 'ask'> {
    const { session, turnId, generation } = message;
    const named = { ...session, turnId, by: 'ann', isAdmin: false };
    switch (kind) {
      case 'post':
        return { ask: (pod) => this.post(pod, message) };
      case 'edit': {
        const content = textOf(message, ++message.edits);
        return { ask: async ({ intake }) => void (await intake.editMessage({ ...named, content })) };
      }
      case 'stop':
        return {
          ask: async ({ intake }) => void (await intake.stopTurn({ ...named, generation: null, reason: null })),
        };
      case 'retry':
        return {
          ask: async ({ intake }) => {
            const { accepted } = await intake.retryTurn({ ...named, generation });
            message.generation = Math.max(message.generation, accepted.generation);
          },
        };
    }
  }

  /** Posted again, it gets the first answer again, edited or not [H2]. */
  private async post(pod: SimulatedPod, message: Message): Promise<void> {
    const { session, turnId, mode } = message;
    const content = textOf(message, 0);
    const { accepted } = await pod.intake.postMessage({
      ...{ ...session, turnId, initiator: 'ann', content, mode, metadata: null },
    });
    message.accepted ??= accepted;
    if (JSON.stringify(accepted) !== JSON.stringify(message.accepted)) {
      throw new Error(`${turnId} was answered ${JSON.stringify([message.accepted, accepted])}`);
    }
  }
}

/** What a message says, as first accepted or after so many edits: no two say the same. */
function textOf({ turnId }: Message, edits: number): string {
  return `say ${turnId} ${edits}`;
}
