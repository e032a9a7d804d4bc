import { setTimeout as pause } from 'node:timers/promises';
import type { Id, StopAnswer } from '#protocol';
import { ApiError, ButlerClient } from '#client';
import type { SeededRandom } from '../../simulation/seeded-random.js';
import { until } from '../../e2e/harness/until.js';

export interface LoadForm {
  sessions: number;
  ratePerS: number;
  /** Which part of the turns is stopped; 0 by default. */
  stopped?: number;
}

interface Said {
  session: Id;
  turnId: Id;
  content: string;
}
export interface AcceptedPost extends Said {
  seq: number;
  /** From the first sending to the 202, resends included. */
  tookMs: number;
}
export interface AnsweredStop {
  turnId: Id;
  state: StopAnswer['state'];
  already: boolean;
}

/** How long after its message a stop comes, at most. */
const STOP_WITHIN_MS = 900;
/** A user whose client has given up sends the same message again, after so long, and does not give up before so long. */
const ASK_AGAIN_MS = 1_000;
const USERS_PATIENCE_MS = 120_000;
export const ACCOUNT = 'drill';

/**
 * Users who talk to Butler through its own client, by way of the balancer. The rate is kept whatever the answers are; in a
 * session a message is sent when the one before has been accepted, so its place in the order is known.
 */
export class Load {
  readonly accepted: AcceptedPost[] = [];
  readonly stops: AnsweredStop[] = [];
  /** Messages that met their own stop before they were born. */
  readonly stoppedUnborn: Id[] = [];
  /** Calls that failed when all retries of the client had been used up. */
  readonly failures = { posts: 0, stops: 0 };
  /** Messages that nobody would take, for all the user's patience. */
  readonly refused: string[] = [];
  /** Attempts of calls that failed and were sent again, by what they failed with. */
  readonly retried = new Map<string, number>();
  readonly sessions: Id[];
  readonly client: ButlerClient;
  private readonly lines = new Map<Id, Promise<void>>();
  private readonly stopping: Promise<void>[] = [];
  private sent = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    baseUrl: string,
    private readonly form: LoadForm,
    private readonly random: SeededRandom,
  ) {
    this.sessions = Array.from({ length: form.sessions }, (_, at) => `s${at}`);
    this.client = new ButlerClient({
      baseUrl,
      headers: { 'x-account-id': ACCOUNT, 'x-user-id': 'ann' },
      fetch: (input, init) => this.count(input, init),
    });
  }

  /** A first message to each session. */
  async warmUp(): Promise<void> {
    for (const session of this.sessions) this.say(session, 'say hello');
    await Promise.all(this.lines.values());
  }

  start(): void {
    const sinceMs = performance.now();
    const { ratePerS, stopped = 0 } = this.form;
    let due = 0;
    this.timer = setInterval(() => {
      for (; due < ((performance.now() - sinceMs) / 1000) * ratePerS; due++) {
        const session = this.sessions[due % this.sessions.length]!;
        const turnId = this.say(session, work(session, due));
        if (this.random.chance(stopped)) this.stopping.push(this.stop(session, turnId));
      }
    }, 10);
  }

  /** Resolves when everything that was said has been answered. */
  async end(): Promise<void> {
    clearInterval(this.timer);
    await until('every message is answered', () => this.settled(), USERS_PATIENCE_MS * 2);
  }

  private async settled(): Promise<true> {
    await Promise.all([...this.lines.values(), ...this.stopping]);
    return true;
  }

  private say(session: Id, content: string): Id {
    const turnId = `t${++this.sent}`;
    const before = this.lines.get(session) ?? Promise.resolve();
    this.lines.set(
      session,
      before.then(() => this.post({ session, turnId, content })),
    );
    return turnId;
  }

  private async post(said: Said): Promise<void> {
    const { session, turnId, content } = said;
    const sinceMs = performance.now();
    for (;;) {
      try {
        const { seq } = await this.client.post(session, { turnId, content });
        this.accepted.push({ ...said, seq, tookMs: performance.now() - sinceMs });
        return;
      } catch (error) {
        if (error instanceof ApiError && error.code === 'turn_stopped') return void this.stoppedUnborn.push(turnId);
        this.failures.posts++;
        if (performance.now() - sinceMs > USERS_PATIENCE_MS)
          return void this.refused.push(`${turnId}: ${String(error)}`);
      }
      await pause(ASK_AGAIN_MS);
    }
  }

  private async stop(session: Id, turnId: Id): Promise<void> {
    await pause(this.random.below(STOP_WITHIN_MS));
    try {
      const { state, already } = await this.client.stop(session, turnId, { reason: 'a drill' });
      this.stops.push({ turnId, state, already });
    } catch {
      // Nobody has promised anything.
      this.failures.stops++;
    }
  }

  private async count(input: Parameters<typeof fetch>[0], init: RequestInit | undefined): Promise<Response> {
    const isPost = init?.method === 'POST';
    const fail = (why: string): void => {
      if (isPost) this.retried.set(why, (this.retried.get(why) ?? 0) + 1);
    };
    try {
      const response = await fetch(input, init);
      if (response.status === 429 || response.status >= 500) fail(`${response.status}`);
      return response;
    } catch (error) {
      if (!init?.signal?.aborted) fail('connection');
      throw error;
    }
  }
}

/** Half a second and more, so that faults meet turns at work: between steps, in a model step, in a tool. */
function work(session: Id, at: number): string {
  const append = { file: session, line: `${at}`, ms: 100, repeatable: at % 2 === 0 };
  return `say one\ntool append ${JSON.stringify(append)}\nsleep 400\nsay two`;
}
