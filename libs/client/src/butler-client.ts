import type { Accepted, Content, Id, Ownership, Session, StopAnswer, Turn } from '#protocol';
import { pages } from './pages.js';
import { ownershipPath, sessionPath, turnPath } from './paths.js';
import type {
  Acceptance,
  CallOptions,
  Events,
  EventsQuery,
  NewMessage,
  StopOptions,
  Turns,
  TurnsQuery,
} from './requests.js';
import { RETRY_POLICY, type RetryPolicy } from './retry.policy.js';
import { SessionsClient } from './sessions.client.js';
import { type Surroundings, SURROUNDINGS } from './surroundings.js';
import { Transport, type TransportOptions } from './transport.js';
import { endsTurn, type TurnEnd } from './turn-end.js';
import { type Frame, Watch, type WatchOptions, type WatchSource } from './watch.js';

const TIMEOUT_MS = 30_000;
/** Events of one page when a gap is filled: the most that the server gives. */
const GAP_PAGE_EVENTS = 1000;

export interface ClientOptions extends Pick<TransportOptions, 'baseUrl' | 'token' | 'headers'>, Partial<Surroundings> {
  /** How long one attempt of a call may take, in ms; 30 s by default. */
  timeoutMs?: number;
  /** What differs from the defaults. */
  retry?: Partial<RetryPolicy>;
}

/** `generation`: the one to wait for; left out: the present one. */
export interface WaitOptions extends Pick<WatchOptions, 'signal' | 'onState'> {
  generation?: number;
}

/**
 * The client of Butler, for browsers and Node: everything that a user does to a session, and its live events.
 *
 * ```ts
 * const butler = new ButlerClient({ baseUrl: 'http://127.0.0.1:3000' });
 * const turn = await butler.post('first', { content: 'How busy is this machine?' });
 * for await (const frame of butler.watch('first', { after: turn.seq })) {
 *   if (frame.type === 'model.delta') show(frame.data.text);
 *   if (endsTurn(frame, turn)) break;
 * }
 * ```
 *
 * **Errors.** Every call rejects with `ApiError` when it is refused (decide by its `code`), with `NetworkError` when no
 * whole answer came, with the reason of the `signal` that gave it up, or with what a `token`, `headers` or `baseUrl`
 * function threw; with `TypeError` for an id that is none.
 *
 * **Retries.** A call that may go through later is sent again by itself, up to five times in all (`RetryPolicy`): after
 * 429 and 503 when the server says so, after failures of the network, 502 and 504 with a growing wait. The latter only
 * where the same call twice does what it does once: that is all of them but `sessions.change`.
 */
export class ButlerClient {
  readonly sessions: SessionsClient;
  private readonly transport: Transport;

  constructor(options: ClientOptions) {
    const { timeoutMs = TIMEOUT_MS, retry, fetch, clock, randomness, ...where } = options;
    this.transport = new Transport(
      { ...where, timeoutMs, retry: { ...RETRY_POLICY, ...retry } },
      {
        fetch: fetch ?? SURROUNDINGS.fetch,
        clock: clock ?? SURROUNDINGS.clock,
        randomness: randomness ?? SURROUNDINGS.randomness,
      },
    );
    this.sessions = new SessionsClient(this.transport);
  }

  /**
   * Says something to a session, and creates it when it is new. Once this resolves the message is kept and will be
   * worked on; what comes of it is told to `watch` and `waitForTurn`.
   * @throws ApiError `queue_full` and `session_busy`: nothing was accepted; `turn_mismatch`: the turnId is taken by
   *   another message; `turn_stopped`: it was stopped before it came
   */
  async post(sessionId: Id, message: NewMessage, { signal }: CallOptions = {}): Promise<Acceptance> {
    const turnId = message.turnId ?? this.transport.surroundings.randomness.id();
    return this.accept(`${sessionPath(sessionId)}/messages`, { ...message, turnId }, signal);
  }

  /**
   * Stops a turn and everything below it. One that waits, or whose message has not come yet, has then ended; one that
   * runs is `stop_requested` and ends where every tool call has its result.
   * @throws ApiError `turn_mismatch`, `stale_generation`
   */
  async stop(sessionId: Id, turnId: Id, { signal, ...stop }: StopOptions = {}): Promise<StopAnswer> {
    const call = { path: `${turnPath(sessionId, turnId)}/stop`, body: stop, isSafe: true, signal };
    return (await this.transport.send<StopAnswer>({ method: 'POST', ...call })).body;
  }

  /**
   * Tries a turn again that has ended: begins its next generation.
   * @param generation the one that is retried, so that a repeated retry is one retry
   * @throws ApiError `turn_ended`: it still lives; `turn_stopped`, `stale_generation`, `not_found`, `queue_full`
   */
  async retry(sessionId: Id, turnId: Id, generation: number, { signal }: CallOptions = {}): Promise<Acceptance> {
    return this.accept(`${turnPath(sessionId, turnId)}/retry`, { generation }, signal);
  }

  /** Edits a message that still waits. @throws ApiError `turn_ended`: it has started; `not_found` */
  async edit(sessionId: Id, turnId: Id, content: Content, { signal }: CallOptions = {}): Promise<Turn> {
    const call = { path: turnPath(sessionId, turnId), body: { content }, isSafe: true, signal };
    return (await this.transport.send<Turn>({ method: 'PATCH', ...call })).body;
  }

  /** @throws ApiError `not_found` */
  async turn(sessionId: Id, turnId: Id, { signal }: CallOptions = {}): Promise<Turn> {
    return this.get(turnPath(sessionId, turnId), {}, signal);
  }

  /** Pages of turns, in the order of the session. @throws ApiError `not_found` */
  turns(sessionId: Id, { after, limit, state, signal }: TurnsQuery = {}): AsyncGenerator<Turns, void, undefined> {
    const path = `${sessionPath(sessionId)}/turns`;
    return pages((cursor: string | undefined) => this.get<Turns>(path, { after: cursor, limit, state }, signal), after);
  }

  /** Pages of events, each event once and in order, up to the last. @throws ApiError `not_found` */
  events(sessionId: Id, { after, limit, signal }: EventsQuery = {}): AsyncGenerator<Events, void, undefined> {
    const path = `${sessionPath(sessionId)}/events`;
    return pages((cursor: number | undefined) => this.get<Events>(path, { after: cursor, limit }, signal), after);
  }

  /**
   * Follows a session: every event behind `after`, each once and in order, then what happens, as it happens, until you
   * leave the loop or `signal` aborts. Connects again by itself, at whatever pod stands behind the address: at once when
   * the server ends the stream, after a growing wait when the connection breaks or says nothing for 45 s.
   *
   * Live text (`model.delta`) is best effort: nobody keeps it. What is passed on adjoins what was told before it, so append
   * it; after a loss nothing comes until the next `model.text`, which holds what was missed. `model.text` counts from its
   * `offset`; `model.message` replaces the text of its step.
   *
   * Nothing is read while you do not ask for the next frame; a server that cannot wait for you is asked again later.
   * Types of events that this client does not know are passed on.
   * @throws ApiError when the server refuses for good: `unauthorized`, `forbidden`, `not_found`, `validation_failed` (a
   *   cursor past the last event). Everything else is waited out, however long
   */
  watch(sessionId: Id, options: WatchOptions = {}): AsyncGenerator<Frame, void, undefined> {
    const source = this.sourceOf(sessionPath(sessionId));
    return new Watch(source, options, this.transport.surroundings).frames();
  }

  /**
   * Resolves with the event that ends a turn, also when it has ended long ago.
   * @throws as `turn` and `watch`; the signal's reason
   */
  async waitForTurn(sessionId: Id, turnId: Id, options: WaitOptions = {}): Promise<TurnEnd> {
    const { signal, onState } = options;
    const turn = await this.turn(sessionId, turnId, { signal });
    const { generation = turn.generation } = options;
    const after = (generation === turn.generation && turn.queueSeq) || 0;
    for await (const frame of this.watch(sessionId, { after, signal, onState })) {
      if (endsTurn(frame, { turnId, generation })) return frame;
    }
    // A watch ends by itself only when it is told to.
    throw signal?.reason;
  }

  /** Who owns a session, and what waits in it. Needs the scope `admin`, for another account `operator`. */
  async ownership(account: Id, sessionId: Id, { signal }: CallOptions = {}): Promise<Ownership> {
    return this.get(ownershipPath(account, sessionId), {}, signal);
  }

  private async get<T>(
    path: string,
    query: Record<string, string | number | undefined>,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    return (await this.transport.send<T>({ method: 'GET', path, query, isSafe: true, signal })).body;
  }

  private async accept(path: string, body: unknown, signal: AbortSignal | undefined): Promise<Acceptance> {
    const call = { path, body, isSafe: true, signal };
    const answer = await this.transport.send<Accepted>({ method: 'POST', ...call });
    return { ...answer.body, replayed: answer.replayed };
  }

  private sourceOf(path: string): WatchSource {
    const read = async <T>(from: string, query: Record<string, number>, signal: AbortSignal): Promise<T> =>
      (await this.transport.sendOnce<T>({ method: 'GET', path: from, query, isSafe: true, signal })).body;
    return {
      lastSeq: async (signal) => (await read<Session>(path, {}, signal)).lastSeq,
      events: async (after, signal) =>
        (await read<Events>(`${path}/events`, { after, limit: GAP_PAGE_EVENTS }, signal)).events,
      open: (after, signal) => this.transport.open(`${path}/stream`, { after }, signal),
    };
  }
}
