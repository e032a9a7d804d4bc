import { Agent, request } from 'node:http';
import { Redis } from 'ioredis';
import { percentiles } from './figures.js';

/** A turn without any step: what is measured is the way of the message. */
const EMPTY_TURN = 'pace 1';

export interface LoadRun {
  messagesPerS: number;
  /** From the sending of the POST to `turn.started` on the session's live channel, ms. */
  startMs: { p50: number; p99: number };
}

/** Posts messages over HTTP and sees on the live channels when their turns start and end. */
export class HttpLoad {
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 256 });
  private readonly posted = new Map<string, number>();
  private started: number[] = [];
  private ended = 0;
  private wanted = 0;
  private allEnded: () => void = () => undefined;

  private constructor(
    private readonly pods: readonly string[],
    private readonly live: Redis,
  ) {}

  static async open(pods: readonly string[], redisUrl: string, prefix: string): Promise<HttpLoad> {
    const live = new Redis(redisUrl);
    const load = new HttpLoad(pods, live);
    live.on('pmessage', (_pattern, _channel, text: string) => load.hear(text));
    await live.psubscribe(`${prefix}live:*`);
    return load;
  }

  /** `clients` post at once, each session's messages in order of rounds. Resolves when every turn has ended. */
  async run(sessions: readonly string[], messages: number, clients: number): Promise<LoadRun> {
    const jobs = Array.from({ length: messages }, () => sessions).flat();
    const done = this.expect(jobs.length);
    const begin = performance.now();
    let next = 0;
    const post = async (): Promise<void> => {
      for (let at = next++; at < jobs.length; at = next++) await this.post(jobs[at]!, `${begin}-${at}`, at);
    };
    await Promise.all(Array.from({ length: clients }, post));
    await done;
    const seconds = (performance.now() - begin) / 1000;
    return { messagesPerS: jobs.length / seconds, startMs: percentiles(this.started) };
  }

  /** One message to each session, each posted when the turn before has ended: nobody else is there. */
  async runAlone(sessions: readonly string[]): Promise<Pick<LoadRun, 'startMs'>> {
    const startMs: number[] = [];
    for (const [at, session] of sessions.entries()) {
      const done = this.expect(1);
      await this.post(session, `${performance.now()}-${at}`, at);
      await done;
      startMs.push(...this.started);
    }
    return { startMs: percentiles(startMs) };
  }

  close(): void {
    this.live.disconnect();
    this.agent.destroy();
  }

  /** Resolves when so many turns have ended from now on. */
  private expect(turns: number): Promise<void> {
    this.started = [];
    this.ended = 0;
    this.wanted = turns;
    return new Promise((resolve) => (this.allEnded = resolve));
  }

  private async post(sessionId: string, name: string, at: number): Promise<void> {
    const turnId = `${process.pid}-${name}`;
    this.posted.set(turnId, performance.now());
    const body = JSON.stringify({ turnId, content: EMPTY_TURN });
    const url = new URL(`/v1/sessions/${sessionId}/messages`, this.pods[at % this.pods.length]);
    const status = await new Promise<number>((resolve, reject) => {
      const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
      const sent = request(url, { agent: this.agent, method: 'POST', headers }, (answer) => {
        answer.resume();
        answer.once('end', () => resolve(answer.statusCode!));
      });
      sent.once('error', reject);
      sent.end(body);
    });
    if (status !== 202) throw new Error(`a post was answered ${status}`);
  }

  private hear(text: string): void {
    const frame = JSON.parse(text) as { events?: { type: string; turnId: string | null }[] };
    for (const { type, turnId } of frame.events ?? []) {
      const posted = turnId === null ? undefined : this.posted.get(turnId);
      if (posted === undefined) continue;
      if (type === 'turn.started') this.started.push(performance.now() - posted);
      if (type !== 'turn.completed' && type !== 'turn.failed') continue;
      this.posted.delete(turnId!);
      if (++this.ended === this.wanted) this.allEnded();
    }
  }
}
