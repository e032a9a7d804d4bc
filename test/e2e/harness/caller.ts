import type { Accepted, Content, Event, Meta, Mode, Ownership, Session, StopAnswer, Turn } from '#protocol';
import { until } from './until.js';

export interface Answer<T> {
  status: number;
  headers: Headers;
  body: T;
}
export interface Message {
  turnId?: string;
  content: Content;
  mode?: Mode;
  metadata?: Meta;
}
interface Listening {
  readonly url: string;
}
type Page<K extends string, T> = { [Key in K]: T[] } & { nextAfter: string | number | null; hasMore: boolean };

const TERMINAL = ['completed', 'failed', 'stopped'];

/** A user of an account, calling pods. */
export class Caller {
  readonly headers: Record<string, string>;

  constructor(
    readonly account = 'acme',
    readonly user = 'ann',
    scope = 'user admin operator',
  ) {
    this.headers = { 'x-account-id': account, 'x-user-id': user, 'x-scope': scope };
  }

  async call<T>(
    pod: Listening,
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
  ): Promise<Answer<T>> {
    const response = await fetch(`${pod.url}${path}`, {
      method,
      headers: { ...this.headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
    return { status: response.status, headers: response.headers, body: (await response.json()) as T };
  }

  /** Posts a message, whatever the answer. */
  post(pod: Listening, sessionId: string, message: Message, signal?: AbortSignal): Promise<Answer<Accepted>> {
    return this.call(pod, 'POST', `/v1/sessions/${sessionId}/messages`, message, signal);
  }

  /** Posts a message that must be accepted. */
  async say(pod: Listening, sessionId: string, content: Content, turnId?: string): Promise<Accepted> {
    const { status, body } = await this.post(pod, sessionId, { content, turnId });
    if (status !== 202) throw new Error(`POST was answered ${status}: ${JSON.stringify(body)}`);
    return body;
  }

  /** Stops a turn, whatever the answer. */
  stop(pod: Listening, sessionId: string, turnId: string, body: unknown = {}): Promise<Answer<StopAnswer>> {
    return this.call(pod, 'POST', `/v1/sessions/${sessionId}/turns/${turnId}/stop`, body);
  }

  /** Retries a generation of a turn, whatever the answer. */
  retry(pod: Listening, sessionId: string, turnId: string, generation: number): Promise<Answer<Accepted>> {
    return this.call(pod, 'POST', `/v1/sessions/${sessionId}/turns/${turnId}/retry`, { generation });
  }

  session(pod: Listening, sessionId: string): Promise<Session> {
    return this.get(pod, `/v1/sessions/${sessionId}`);
  }

  turn(pod: Listening, sessionId: string, turnId: string): Promise<Turn> {
    return this.get(pod, `/v1/sessions/${sessionId}/turns/${turnId}`);
  }

  ownership(pod: Listening, sessionId: string): Promise<Ownership> {
    return this.get(pod, `/v1/admin/sessions/${this.account}/${sessionId}/ownership`);
  }

  /** All turns of a session. */
  turns(pod: Listening, sessionId: string): Promise<Turn[]> {
    return this.pages(pod, `/v1/sessions/${sessionId}/turns`, 'turns');
  }

  /** All events of a session. */
  events(pod: Listening, sessionId: string): Promise<Event[]> {
    return this.pages(pod, `/v1/sessions/${sessionId}/events`, 'events');
  }

  /** The turn when it has ended. */
  ended(pod: Listening, sessionId: string, turnId: string, limitMs?: number): Promise<Turn> {
    const look = async (): Promise<Turn | false> => {
      const turn = await this.turn(pod, sessionId, turnId);
      return TERMINAL.includes(turn.state) && turn;
    };
    return until(`turn ${turnId} ends`, look, limitMs);
  }

  async get<T>(pod: Listening, path: string): Promise<T> {
    const { status, body } = await this.call<T>(pod, 'GET', path);
    if (status !== 200) throw new Error(`GET ${path} was answered ${status}: ${JSON.stringify(body)}`);
    return body;
  }

  private async pages<K extends string, T>(pod: Listening, path: string, key: K): Promise<T[]> {
    const all: T[] = [];
    for (let query = '?limit=1000'; ;) {
      const page = await this.get<Page<K, T>>(pod, `${path}${query}`);
      all.push(...page[key]);
      if (!page.hasMore) return all;
      query = `?limit=1000&after=${page.nextAfter}`;
    }
  }
}
