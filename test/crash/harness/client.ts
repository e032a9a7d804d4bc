import { Caller } from '../../e2e/harness/caller.js';
import type { Pod } from '../../e2e/harness/pod.js';

export interface Said {
  session: string;
  turnId: string;
  content: string;
}

/** What a client waits for an answer before it asks elsewhere. */
const PATIENCE_MS = 2000;
const TRIES = 60;

/** Clients that post messages to any pod, many at once, and each resend to another pod until it is accepted. */
export class Clients {
  accepted = 0;
  resends = 0;
  /** The longest that an accepted message took, its resends included. */
  longestMs = 0;

  constructor(
    private readonly caller: Caller,
    private readonly pods: readonly Pod[],
    private readonly fraction: () => number,
  ) {}

  /** Resolves when all are accepted; `atOnce` at a time, in this order. */
  async sayAll(messages: readonly Said[], atOnce: number): Promise<void> {
    const left = messages.values();
    const one = async (): Promise<void> => {
      for (const message of left) await this.say(message);
    };
    await Promise.all(Array.from({ length: atOnce }, one));
  }

  private async say({ session, turnId, content }: Said): Promise<void> {
    const sinceMs = performance.now();
    let pod = this.pods[Math.floor(this.fraction() * this.pods.length)]!;
    for (let tries = 1; ; tries++) {
      const problem = await this.post(pod, session, turnId, content);
      if (problem === null) break;
      if (tries === TRIES) throw new Error(`${turnId} was not accepted, at last at ${pod.name}: ${problem}`);
      this.resends++;
      pod = this.pods[(this.pods.indexOf(pod) + 1) % this.pods.length]!;
    }
    this.accepted++;
    this.longestMs = Math.max(this.longestMs, performance.now() - sinceMs);
  }

  /** What was wrong; null when it was accepted. Only what a client may send again is told. */
  private async post(pod: Pod, session: string, turnId: string, content: string): Promise<string | null> {
    let answer;
    try {
      answer = await this.caller.post(pod, session, { turnId, content }, AbortSignal.timeout(PATIENCE_MS));
    } catch (error) {
      return String(error);
    }
    if (answer.status === 202) return null;
    if (answer.status === 503) return JSON.stringify(answer.body);
    throw new Error(`${turnId} was answered ${answer.status}: ${JSON.stringify(answer.body)}`);
  }
}
