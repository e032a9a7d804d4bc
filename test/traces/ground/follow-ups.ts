import type { Accepted, Content, Event, EventType, Mode, ModelMessage, SessionKey, StopAnswer } from '#protocol';
import type { TurnRow } from '#turn-lifecycle';
import type { Ground } from './ground.js';
import type { Hold } from './points.js';
import type { TracePod } from './trace-pod.js';
import { Watch } from './watch.js';

/** Sweeps in which everything must have come to rest. */
const SWEEPS_MAX = 10;

interface Said {
  mode?: Mode;
  content?: Content;
  by?: string;
  isAdmin?: boolean;
  pod?: TracePod;
}

/** One session to which things are said while it works, and what must be true of every message that was accepted. */
export class FollowUps {
  readonly session: SessionKey;
  readonly watch: Watch;

  constructor(
    private readonly ground: Ground,
    /** Takes calls in and runs nothing. */
    private readonly door: TracePod,
  ) {
    this.session = ground.session();
    this.watch = new Watch(ground, this.session);
  }

  /** Turn ids are unique in the account. */
  named(turn: string): string {
    return `${this.session.sessionId}-${turn}`;
  }

  /** Posts the message of a turn; its content is `say <turn>` unless something else is said. */
  async say(turn: string, { mode = 'enqueue', by = 'ann', isAdmin = false, pod = this.door, ...said }: Said = {}) {
    const { content = `say ${turn}` } = said;
    const message = { ...this.session, turnId: this.named(turn), initiator: by, isAdmin, content, metadata: null };
    return pod.intake.postMessage({ ...message, mode });
  }

  async edit(turn: string, content: Content, { by = 'ann', pod = this.door }: Said = {}): Promise<TurnRow> {
    return pod.intake.editMessage({ ...this.session, turnId: this.named(turn), content, by, isAdmin: false });
  }

  async stop(turn: string): Promise<StopAnswer> {
    const request = { ...this.session, turnId: this.named(turn), generation: null, reason: null };
    return this.door.intake.stopTurn({ ...request, by: 'ann', isAdmin: false });
  }

  async retry(turn: string, generation = 1): Promise<Accepted> {
    const request = { ...this.session, turnId: this.named(turn), generation, by: 'ann', isAdmin: false };
    return (await this.door.intake.retryTurn(request)).accepted;
  }

  /** Posts a turn that its owner then holds at a step. */
  async running(turn: string, pod: TracePod, step = 'model:1', said: Said = {}): Promise<Hold> {
    const held = pod.points.hold(`step ${step}`);
    await this.say(turn, said);
    await held.reached;
    await this.ground.quiet();
    return held;
  }

  row(turn: string): Promise<TurnRow | null> {
    return this.ground.turns.find(this.ground.database, this.session.account, this.named(turn));
  }

  /** The lives of turns, an event a line: `turn.started t`. */
  async lives(): Promise<string[]> {
    const kept = /^turn\.(queued|started|resumed|absorbed|stop_requested|stopped|completed|failed)$/;
    return (await this.watch.events()).filter(({ type }) => kept.test(type)).map((event) => this.brief(event));
  }

  async turnsOf(type: EventType): Promise<string[]> {
    return (await this.watch.events()).filter((event) => event.type === type).map((event) => this.short(event.turnId));
  }

  /** Lets the pods look until everything that was accepted has ended and no list holds anything. */
  async finish(...pods: TracePod[]): Promise<void> {
    await this.ground.quiet();
    for (let sweeps = 0; !(await this.isOver()); sweeps++) {
      if (sweeps > SWEEPS_MAX) throw new Error(`not done: ${JSON.stringify(await this.lives())}`);
      await this.ground.behind.letReconcile(this.session);
      await this.ground.sweep(...pods);
    }
  }

  /** What users have said, as the last model input of a turn has it. */
  heardBy(turn: string, step?: string): Content[] {
    return usersIn(this.inputOf(turn, step));
  }

  inputOf(turn: string, step?: string): readonly ModelMessage[] {
    const turnId = this.named(turn);
    const read = this.watch.inputs.findLast((each) => each.turnId === turnId && (!step || each.step === step));
    return read?.input ?? [];
  }

  /**
   * Every accepted message was dealt with once: it ran as its own turn once, or was absorbed once, or was stopped before.
   * And the model was told of each that was not stopped before, once: asks with one more message.
   */
  async eachOnce(pod: TracePod): Promise<void> {
    await this.watch.check();
    const accepted = await this.turnsOf('message.accepted');
    const uses = [...(await this.turnsOf('turn.started')), ...(await this.turnsOf('turn.absorbed'))];
    const stopped = await this.turnsOf('turn.stopped');
    for (const turn of accepted) {
      const used = uses.filter((each) => each === turn).length;
      const isUnused = used === 0 && stopped.includes(turn);
      if (used !== 1 && !isUnused)
        throw new Error(`${turn} was used ${used} times: ${(await this.lives()).join(', ')}`);
    }
    await this.say('last');
    await this.finish(pod);
    const heard = this.heardBy('last');
    for (const turn of [...accepted, 'last']) {
      const times = heard.filter((text) => String(text).split(' ')[1] === turn).length;
      const due = turn === 'last' || uses.includes(turn) ? 1 : 0;
      if (times !== due) throw new Error(`the model was told ${times} times of ${turn}: ${JSON.stringify(heard)}`);
    }
  }

  private async isOver(): Promise<boolean> {
    const { pending, processing } = await this.ground.behind.look(this.session);
    return pending.length + processing.length === 0 && (await this.watch.isDone());
  }

  private brief(event: Event): string {
    return `${event.type} ${this.short(event.turnId)}`;
  }

  private short(turnId: string | null): string {
    return turnId?.slice(this.named('').length) ?? '';
  }
}

function usersIn(input: readonly ModelMessage[]): Content[] {
  return input.flatMap((message) => (message.role === 'user' ? [message.content] : []));
}
