import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { loadSettings } from '#platform';
import { type Pod, startPod } from '../apps/server/src/pod.js';

export const MAX_BYTES = 8192;

/** How often, and how far apart, something is looked for. */
const UNTIL_LOOKS = 1000;
const UNTIL_PAUSE_MS = 10;

export interface Asked {
  headers?: Record<string, string>;
  body?: unknown;
  /** Sent as it is, instead of `body` as JSON. */
  raw?: string | Buffer | ReadableStream;
}
export interface Answered {
  status: number;
  headers: Headers;
  body: Record<string, unknown>;
}

/** For specs: an embedded pod with the script agent, and its caller. */
export class CalledPod {
  private constructor(private readonly pod: Pod) {}

  /** @param given further settings, as in the environment */
  static async start(given: Record<string, string> = {}): Promise<CalledPod> {
    const settings = loadSettings({
      ...{ PORT: '0', DATABASE_URL: 'sqlite::memory:', AGENT: 'script', LOG_LEVEL: 'silent', POD_ID: 'pod' },
      ...{ MESSAGE_MAX_BYTES: String(MAX_BYTES), ALLOWED_HOSTS: 'butler.test', ...given },
    });
    return new CalledPod(await startPod({ settings }));
  }

  get url(): string {
    return this.pod.url;
  }

  async call(method: string, path: string, { headers, body, raw }: Asked = {}): Promise<Answered> {
    const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const response = await fetch(this.url + path, {
      method,
      headers: { ...(sent !== undefined && { 'content-type': 'application/json' }), ...headers },
      body: sent as string,
      ...(raw instanceof ReadableStream && { duplex: 'half' }),
    });
    const text = await response.text();
    const answer = text ? (JSON.parse(text) as Answered['body']) : {};
    return { status: response.status, headers: response.headers, body: answer };
  }

  /** Looks until it is so. */
  async until(isSo: () => Promise<boolean>): Promise<void> {
    for (let looks = 0; !(await isSo()); looks++) {
      if (looks > UNTIL_LOOKS) throw new Error(`not so: ${isSo.toString()}`);
      await delay(UNTIL_PAUSE_MS);
    }
  }

  /** For what `fetch` would mend before it sends it. */
  sendAsIs(
    method: string,
    path: string,
    headers: Record<string, string> = {},
  ): Promise<{ status: number; code: unknown }> {
    const { hostname, port } = new URL(this.url);
    return new Promise((resolve, reject) => {
      request({ hostname, port, method, path, headers }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        response.on('end', () => {
          const { code } = (text ? JSON.parse(text) : {}) as { code?: unknown };
          resolve({ status: response.statusCode ?? 0, code });
        });
      })
        .on('error', reject)
        .end();
    });
  }

  stop(): Promise<void> {
    return this.pod.stop();
  }
}

/** The fields that a problem names. */
export function fieldsOf(body: Answered['body']): string[] {
  return ((body['errors'] ?? []) as { path: string }[]).map(({ path }) => path);
}
