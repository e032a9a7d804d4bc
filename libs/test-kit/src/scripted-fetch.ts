export interface SentRequest {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: unknown;
  signal: AbortSignal;
}

/** What comes of one request. */
export type ScriptedAnswer = (request: SentRequest) => Response | Promise<Response>;

/** A `fetch` that answers one request after the other as it was told, and keeps what was sent. */
export class ScriptedFetch {
  readonly sent: SentRequest[] = [];
  private readonly answers: ScriptedAnswer[] = [];

  /** The next requests are answered so, in this order. */
  willAnswer(...answers: ScriptedAnswer[]): this {
    this.answers.push(...answers);
    return this;
  }

  readonly fetch = async (input: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    if (typeof input !== 'string') throw new Error('the client sends text addresses');
    const request: SentRequest = {
      method: init.method ?? 'GET',
      url: input,
      headers: { ...(init.headers as Record<string, string>) },
      body: init.body === undefined ? undefined : JSON.parse(init.body as string),
      signal: init.signal!,
    };
    this.sent.push(request);
    const answer = this.answers.shift();
    if (!answer) throw new Error(`no answer was scripted for ${request.method} ${request.url}`);
    return answer(request);
  };
}

export function answers(status: number, body: unknown, headers: Record<string, string> = {}): ScriptedAnswer {
  return () =>
    new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });
}

export function refuses(status: number, code: string, headers: Record<string, string> = {}): ScriptedAnswer {
  const problem = { type: `urn:butler:problem:${code}`, title: code, status, detail: `because of ${code}`, code };
  return answers(status, problem, { 'content-type': 'application/problem+json', ...headers });
}

/** As fetch fails when there is no connection. */
export const unreachable: ScriptedAnswer = () => Promise.reject(new TypeError('fetch failed'));

/** No answer at all, until the caller gives up. */
export const silent: ScriptedAnswer = ({ signal }) =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }));

/** A stream that a test writes piece by piece. It breaks when its reader gives it up. */
export class ScriptedStream {
  private controller!: ReadableStreamDefaultController<Uint8Array>;
  private readonly body = new ReadableStream<Uint8Array>({
    start: (controller) => void (this.controller = controller),
  });

  readonly answer: ScriptedAnswer = ({ signal }) => {
    const abort = (): void => void this.break(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    return new Response(this.body, { headers: { 'content-type': 'text/event-stream; charset=utf-8' } });
  };

  write(...pieces: (string | Uint8Array)[]): this {
    for (const piece of pieces) {
      this.controller.enqueue(typeof piece === 'string' ? new TextEncoder().encode(piece) : piece);
    }
    return this;
  }

  close(): this {
    this.controller.close();
    return this;
  }

  break(reason: unknown = new TypeError('terminated')): this {
    this.controller.error(reason);
    return this;
  }
}
