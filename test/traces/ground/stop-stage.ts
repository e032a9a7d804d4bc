import { ButlerError, type Event, type SessionKey, type SRef } from '#protocol';
import type { Intake } from '#intake';
import type { TurnRow } from '#turn-lifecycle';
import type { Agent } from '#turn-runner';
import type { StepRun } from '../../simulation/invariants.js';
import { SteppingAgent } from './stepping.agent.js';
import type { Ground } from './ground.js';
import type { Points } from './points.js';
import type { TracePod } from './trace-pod.js';

/** Sweeps in which everything must have come to rest. */
const SWEEPS_MAX = 8;

/** The steps that the agents of all pods have begun. */
const runs: StepRun[] = [];

/** The agent of every pod: a model step, two tools, a last word, each of them a place of its pod (`step model:1`). */
export function tellingAgent(points: Points): Agent {
  return new SteppingAgent({
    begin: (run) => void runs.push(run),
    hold: async (step) => points.reach(`step ${step}`),
  });
}

/** A turn of a test, called by the name that it has in there. */
export class StopStage {
  readonly session = this.ground.session();
  private readonly sessions: SessionKey[] = [this.session];

  private constructor(
    private readonly ground: Ground,
    /** Takes calls in and runs nothing. */
    readonly door: TracePod,
    private readonly intake: Intake,
  ) {}

  static async open(ground: Ground, { notified = false } = {}): Promise<StopStage> {
    runs.length = 0;
    const door = await ground.pod('door', { notified, actors: false });
    return new StopStage(ground, door, door.intake);
  }

  /** The same pods, another session. */
  another(): StopStage {
    return new StopStage(this.ground, this.door, this.intake);
  }

  /** Turn ids are unique in the account. */
  named(turnId: string): string {
    return `${this.session.sessionId}-${turnId}`;
  }

  post(turnId = 't') {
    return this.intake.postMessage({
      ...{ ...this.session, turnId: this.named(turnId), initiator: 'ann', content: 'go', metadata: null },
      mode: 'enqueue',
    });
  }

  stop({ turnId = 't', generation = null as number | null, by = this.door } = {}) {
    const named = { ...this.session, turnId: this.named(turnId) };
    return by.intake.stopTurn({ ...named, generation, reason: null, by: 'ann', isAdmin: false });
  }

  retry(generation: number, turnId = 't') {
    return this.intake.retryTurn({
      ...this.session,
      turnId: this.named(turnId),
      generation,
      by: 'ann',
      isAdmin: false,
    });
  }

  /** Spawns a child of a turn of this session, or of a child, into a session of its own. */
  async spawn(pod: TracePod, { parent = this.ref(), epoch = 1, callId = 'c' } = {}): Promise<SRef> {
    const sessionId = `${parent.sessionId}-${callId}`;
    const { account } = this.session;
    this.sessions.push({ account, sessionId });
    const request = { parent: { account, ...parent }, epoch, callId, sessionId, content: 'go' };
    return (await pod.intake.spawnChild(request)).child;
  }

  stopChild({ sessionId, turnId }: SRef, by = this.door) {
    const { account } = this.session;
    return by.intake.stopTurn({
      ...{ account, sessionId, turnId, generation: null, reason: null },
      ...{ by: 'ann', isAdmin: false },
    });
  }

  retryChild({ sessionId, turnId, generation }: SRef) {
    const { account } = this.session;
    return this.intake.retryTurn({ account, sessionId, turnId, generation, by: 'ann', isAdmin: false });
  }

  ref(turnId = 't', generation = 1): SRef {
    return { sessionId: this.session.sessionId, turnId: this.named(turnId), generation };
  }

  row(turnId = this.named('t')): Promise<TurnRow | null> {
    return this.ground.turns.find(this.ground.database, this.session.account, turnId);
  }

  /** State and generation. */
  async state(turnId = this.named('t')): Promise<string> {
    const row = await this.row(turnId);
    return row ? `${row.state} ${row.generation}` : 'unborn';
  }

  /** What the ledger says of turns: type and generation, and the gate of a stop. */
  async story(sessionId = this.session.sessionId): Promise<string[]> {
    const events = await this.ground.ledger.events({ ...this.session, sessionId }, 0, 1_000);
    return events.filter(({ type }) => type.startsWith('message.') || type.startsWith('turn.')).map(tell);
  }

  /** All turns below this one, as `state generation`, by turnId. */
  async below(turnId = this.named('t')): Promise<string[]> {
    const rows = await this.ground.database.query<{ state: string; generation: number }>(
      'SELECT state, generation FROM turn WHERE account = ? AND path >= ? AND path < ? ORDER BY path',
      [this.session.account, `${turnId}/`, `${turnId}0`],
    );
    return rows.map(({ state, generation }) => `${state} ${generation}`);
  }

  /** How many steps of a turn's generation were begun. */
  begun(generation = 1, turnId = this.named('t')): number {
    return runs.filter((run) => run.turnId === turnId && run.generation === generation).length;
  }

  /** Lets pods look until nothing is left to do, in any session of the test. */
  async rest(...pods: TracePod[]): Promise<void> {
    await this.ground.quiet();
    for (let sweeps = 0; !(await this.isAtRest()); sweeps++) {
      if (sweeps > SWEEPS_MAX) throw new Error(`no rest: ${JSON.stringify(await this.story())}`);
      for (const session of this.sessions) await this.ground.behind.letReconcile(session);
      await this.ground.sweep(...pods);
    }
  }

  private async isAtRest(): Promise<boolean> {
    for (const session of this.sessions) {
      const { pending, processing } = await this.ground.behind.look(session);
      const turns = await this.ground.turns.live(this.ground.database, session);
      if (pending.length + processing.length + turns.length > 0) return false;
    }
    return true;
  }
}

/** The refusal that this call meets, with the generation that it tells. */
export async function refusal(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => new Error('it was not refused'),
    (reason: unknown) => reason,
  );
  if (!(error instanceof ButlerError)) throw error;
  return [error.code, error.facts.generation].filter((word) => word !== undefined).join(' ');
}

function tell(event: Event): string {
  const words = [event.type, event.generation];
  return (event.type === 'turn.stopped' ? [...words, event.data.gate] : words).join(' ');
}
