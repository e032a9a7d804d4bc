import type { ErrorCode, ErrorFacts } from '#protocol';

/** RFC 9457: what a pod says about a refusal. `detail` tells the caller what to do next. */
export interface Problem extends Omit<ErrorFacts, 'retryAfterS'> {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
}

/** The statuses that pass by themselves, whoever sent them: a pod, or a proxy in front of it. */
const PASSING = new Set([429, 502, 503, 504]);

/** A call was answered, with a refusal. Decide by `code`; `message` is for people. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** The HTTP status. */
  readonly status: number;
  /** Stable. A newer server may have further ones; `unknown`: somebody between answered, such as a proxy. */
  readonly code: ErrorCode | 'unknown' | (string & {});
  /** What the pod said, with the facts of the refusal; null when somebody between answered. */
  readonly problem: Problem | null;
  /** How long to wait before the same is asked again, in seconds; null: nothing was said. */
  readonly retryAfterS: number | null;
  /** Names the request in the pod's log. */
  readonly requestId: string | null;

  constructor(status: number, headers: Headers, problem: Problem | null) {
    super(problem?.detail ?? `The answer has the status ${status} and does not say why.`);
    this.status = status;
    this.code = problem?.code ?? 'unknown';
    this.problem = problem;
    this.retryAfterS = secondsOf(headers.get('retry-after'));
    this.requestId = headers.get('x-request-id');
  }

  /** Whether the same call may go through later. */
  get isRetryable(): boolean {
    return PASSING.has(this.status);
  }
}

/** The refusal that an answer with a bad status is. */
export async function refusalOf(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => null)) as Problem | null;
  const isProblem = typeof body?.code === 'string' && typeof body.detail === 'string';
  return new ApiError(response.status, response.headers, isProblem ? body : null);
}

/** Dates, which pods do not send, count as nothing said. */
function secondsOf(retryAfter: string | null): number | null {
  return retryAfter !== null && /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) : null;
}
