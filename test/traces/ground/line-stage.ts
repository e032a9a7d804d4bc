import { expect } from '@jest/globals';
import type { SessionKey } from '#protocol';
import { envelopes } from './behind.js';
import type { Ground } from './ground.js';
import type { TracePod } from './trace-pod.js';
import { Watch } from './watch.js';

/** Sweeps in which everything must have ended. */
const SWEEPS_MAX = 10;

/** A session's line: a pod that only takes messages in, two that may own it, and what has been promised of it. */
export class LineStage {
  private constructor(
    private readonly ground: Ground,
    readonly session: SessionKey,
    readonly watch: Watch,
    readonly poster: TracePod,
    readonly first: TracePod,
    readonly second: TracePod,
  ) {}

  /**
   * @param notified false: the pods hear nothing of each other, and the test decides who looks when
   * @param beside a further session in the same partition, watched too
   */
  static async open(ground: Ground, { notified = false, beside = null as SessionKey | null } = {}): Promise<LineStage> {
    const session = beside ? ground.sessionBeside(beside) : ground.session();
    const watch = new Watch(ground, session, beside ? [beside] : []);
    const poster = await ground.pod('p', { notified, actors: false });
    const first = await ground.pod('a', { notified });
    const second = await ground.pod('b', { notified });
    return new LineStage(ground, session, watch, poster, first, second);
  }

  /** Turn ids are unique in the account. */
  named(turnId: string): string {
    return `${this.session.sessionId}-${turnId}`;
  }

  line(...turnIds: string[]): string[] {
    return envelopes(...turnIds.map((turnId) => this.named(turnId)));
  }

  async post(...turnIds: string[]): Promise<void> {
    for (const turnId of turnIds) await this.poster.post(this.session, this.named(turnId));
  }

  /** A message that stands in the ledger and in no list yet. Answers what lets its poster put it there. */
  async accept(turnId: string): Promise<() => Promise<void>> {
    const committed = this.poster.points.hold('intake.committed');
    const posting = this.post(turnId);
    await committed.reached;
    return async () => {
      committed.release();
      await posting;
      await this.ground.quiet();
    };
  }

  /** Redis loses its memory, as far as this session and its partition go. */
  async flush(...turnIds: string[]): Promise<void> {
    await this.ground.behind.loseAll(
      this.session,
      turnIds.map((turnId) => this.named(turnId)),
    );
  }

  /** A pod looks for lost partitions, and fills what it finds when living owners have had time to renew. */
  async fill(pod: TracePod): Promise<void> {
    const looking = pod.recovery.look();
    await this.ground.quiet();
    await pod.clock.advance(pod.settings.refillWaitMs);
    await looking;
    await this.ground.quiet();
  }

  /** Lets pods look until all has ended. */
  async finish(...pods: TracePod[]): Promise<void> {
    const { ground, session, watch } = this;
    for (let sweeps = 0; !(await watch.isDone()); sweeps++) {
      if (sweeps > SWEEPS_MAX) throw new Error(`not done: ${JSON.stringify(await watch.events())}`);
      await ground.behind.letReconcile(session);
      await ground.sweep(...pods);
    }
    await ground.sweep(...pods);
    expect(await ground.behind.look(session)).toMatchObject({ pending: [], processing: [] });
  }

  async inOrder(...turnIds: string[]): Promise<void> {
    const named = turnIds.map((turnId) => this.named(turnId));
    expect(await this.watch.turnsOf('turn.started')).toEqual(named);
    expect(await this.watch.turnsOf('turn.completed')).toEqual(named);
  }
}
