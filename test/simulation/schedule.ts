import type { SessionKey } from '#protocol';
import { type Database, UnavailableError } from '#platform';
import { type Faults, Simulation } from './simulation.js';

interface Post {
  session: SessionKey;
  turnId: string;
  /** A client whose pod died posts again, or gives up. */
  state: 'unsent' | 'sent' | 'accepted' | 'given up';
  pod: string | null;
}

export interface ScheduleReport extends Faults {
  seed: number;
  steps: number;
  posts: number;
}

const SESSIONS = 3;
const MESSAGES = 6;

/** Messages to a few sessions, posted at any pod at any time. */
export class Schedule extends Simulation {
  private readonly posts: Post[] = [];

  constructor(seed: number, database: Database, faults: Faults) {
    const account = `acc-${seed}`;
    const sessions = Array.from({ length: SESSIONS }, (_, at) => ({ account, sessionId: `ses-${at}` }));
    super(seed, database, { sessions, faults });
    for (let at = 0; at < MESSAGES; at++) {
      this.posts.push({ session: this.random.pick(sessions), turnId: `${account}-t${at}`, state: 'unsent', pod: null });
    }
  }

  /** @throws Error with the seed and the trace at the first promise that does not hold */
  async run(): Promise<ScheduleReport> {
    const steps = await this.play();
    return { seed: this.seed, steps, posts: this.posts.length, ...this.befell };
  }

  protected override isOver(): boolean {
    const { invariants } = this;
    return (
      invariants.allEnded &&
      this.posts.every(
        ({ state, turnId }) => state === 'given up' || (state === 'accepted' && invariants.hasAccepted(turnId)),
      )
    );
  }

  protected override mayInterfere(): void {
    const waiting = this.posts.filter((post) => post.state === 'unsent');
    if (waiting.length > 0 && this.random.chance(0.05)) this.post(this.random.pick(waiting));
  }

  protected override onCrash(name: string): void {
    for (const post of this.posts) {
      if (post.pod === name && post.state === 'sent') post.state = this.random.chance(0.5) ? 'unsent' : 'given up';
    }
  }

  private post(post: Post): void {
    const [name, pod] = this.random.pick([...this.pods]);
    post.state = 'sent';
    post.pod = name;
    const message = { ...post.session, turnId: post.turnId, initiator: 'ann', content: 'go', metadata: null };
    pod.intake.postMessage({ ...message, mode: 'enqueue' }).then(
      () => {
        post.state = 'accepted';
      },
      (error: unknown) => {
        if (error instanceof UnavailableError) post.state = 'unsent';
        else this.fail(error as Error);
      },
    );
  }
}
