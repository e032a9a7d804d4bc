import { refusalOf } from './api.error.js';
import { inTime, LinkedAbort } from './linked-abort.js';
import { NetworkError } from './network.error.js';
import { type RetryPolicy, withRetries } from './retry.policy.js';
import type { Surroundings } from './surroundings.js';

type Maybe<T> = T | (() => T | Promise<T>);

export interface TransportOptions {
  /** Where the pods are, such as `https://butler.example`. A function is asked before each attempt. */
  baseUrl: string | (() => string);
  /** The bearer token. A function is asked before each attempt, so that it can renew one that has expired. */
  token?: Maybe<string>;
  /** Further headers of every call. A function is asked before each attempt. */
  headers?: Maybe<Record<string, string>>;
  /** How long one attempt of a call may take, in ms. Not for streams. */
  timeoutMs: number;
  retry: RetryPolicy;
}

export interface Call {
  method: 'GET' | 'POST' | 'PATCH';
  path: string;
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  /** Whether the same call twice does what it does once. */
  isSafe: boolean;
  signal?: AbortSignal | undefined;
}

export interface Answer<T> {
  body: T;
  /** The server had accepted the same before. */
  replayed: boolean;
}

/** Sends calls and reads their answers: addresses, headers, time limits, errors and retries are known here. */
export class Transport {
  constructor(
    private readonly options: TransportOptions,
    readonly surroundings: Surroundings,
  ) {}

  /** @throws ApiError, NetworkError when the retries are used up or not allowed; the signal's reason */
  send<T>(call: Call): Promise<Answer<T>> {
    const { isSafe, signal } = call;
    return withRetries(() => this.sendOnce<T>(call), isSafe, this.options.retry, this.surroundings, signal);
  }

  /** One attempt. @throws ApiError, NetworkError; the signal's reason */
  async sendOnce<T>(call: Call): Promise<Answer<T>> {
    const { clock } = this.surroundings;
    const { timeoutMs } = this.options;
    const attempt = new LinkedAbort(call.signal);
    try {
      return await inTime(clock, timeoutMs, `${call.path} was not answered`, this.exchange<T>(call, attempt.signal));
    } catch (error) {
      call.signal?.throwIfAborted();
      throw error;
    } finally {
      attempt.end();
    }
  }

  /** One attempt to open a stream; it is read under the same signal. @throws as `sendOnce` */
  async open(path: string, query: Call['query'], signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
    const call: Call = { method: 'GET', path, query, isSafe: true, signal };
    const response = await this.answered(call, 'text/event-stream', signal);
    const type = response.headers.get('content-type') ?? 'no type';
    if (!response.body || !type.startsWith('text/event-stream')) {
      throw new NetworkError(`The stream was answered with ${type}: that is no pod.`);
    }
    return response.body;
  }

  private async exchange<T>(call: Call, signal: AbortSignal): Promise<Answer<T>> {
    const response = await this.answered(call, 'application/json', signal);
    try {
      const body = (await response.json()) as T;
      return { body, replayed: response.headers.get('idempotency-replayed') === 'true' };
    } catch (cause) {
      throw new NetworkError(`The answer to ${call.path} cannot be read to its end.`, { cause });
    }
  }

  private async answered(call: Call, accept: string, signal: AbortSignal): Promise<Response> {
    const { baseUrl } = this.options;
    const base = typeof baseUrl === 'string' ? baseUrl : baseUrl();
    const url = `${base.replace(/\/+$/, '')}${call.path}${queryOf(call.query)}`;
    const hasBody = call.body !== undefined;
    const json: Record<string, string> = hasBody ? { 'content-type': 'application/json' } : {};
    const headers = { accept, ...json, ...(await this.ownHeaders()) };
    signal.throwIfAborted();
    const init = { method: call.method, headers, signal, ...(hasBody && { body: JSON.stringify(call.body) }) };
    const { fetch } = this.surroundings;
    const response = await fetch(url, init).catch((cause: unknown) => {
      signal.throwIfAborted();
      throw new NetworkError(`${call.method} ${call.path} could not be sent, or its connection broke.`, { cause });
    });
    if (!response.ok) throw await refusalOf(response);
    return response;
  }

  private async ownHeaders(): Promise<Record<string, string>> {
    const { token, headers } = this.options;
    const given = typeof headers === 'function' ? await headers() : headers;
    const bearer = typeof token === 'function' ? await token() : token;
    return { ...given, ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }) };
  }
}

function queryOf(query: Call['query'] = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  return given.length === 0
    ? ''
    : `?${given.map(([name, value]) => `${name}=${encodeURIComponent(value!)}`).join('&')}`;
}
