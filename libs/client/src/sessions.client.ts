import type { Id, Session } from '#protocol';
import { pages } from './pages.js';
import { SESSIONS, sessionPath } from './paths.js';
import type { CallOptions, NewSession, PageQuery, SessionChange, Sessions } from './requests.js';
import type { Transport } from './transport.js';

/** The sessions of the caller's account. What it throws: see `ButlerClient`. */
export class SessionsClient {
  constructor(private readonly transport: Transport) {}

  /**
   * Creates a session. The same again is answered the same, so it is safe to repeat.
   * @throws ApiError `session_exists`: there is one with this id and another title or metadata
   */
  async create(session: NewSession = {}, { signal }: CallOptions = {}): Promise<Session> {
    const sessionId = session.sessionId ?? this.transport.surroundings.randomness.id();
    const call = { path: SESSIONS, body: { ...session, sessionId }, isSafe: true, signal };
    return (await this.transport.send<Session>({ method: 'POST', ...call })).body;
  }

  /** Pages of sessions, newest activity first. What is active while you read may come twice. */
  list({ after, limit, signal }: PageQuery = {}): AsyncGenerator<Sessions, void, undefined> {
    const read = async (cursor: string | undefined): Promise<Sessions> => {
      const call = { path: SESSIONS, query: { after: cursor, limit }, isSafe: true, signal };
      return (await this.transport.send<Sessions>({ method: 'GET', ...call })).body;
    };
    return pages(read, after);
  }

  /** @throws ApiError `not_found` */
  async get(sessionId: Id, { signal }: CallOptions = {}): Promise<Session> {
    const call = { path: sessionPath(sessionId), isSafe: true, signal };
    return (await this.transport.send<Session>({ method: 'GET', ...call })).body;
  }

  /**
   * Changes title or metadata. Not sent again when its answer is lost: that could undo what somebody else has changed
   * since.
   * @throws ApiError `not_found`
   */
  async change(sessionId: Id, change: SessionChange, { signal }: CallOptions = {}): Promise<Session> {
    const call = { path: sessionPath(sessionId), body: change, isSafe: false, signal };
    return (await this.transport.send<Session>({ method: 'PATCH', ...call })).body;
  }
}
