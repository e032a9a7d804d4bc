import type { Id } from '#protocol';

export interface OwnSession {
  sessionId: Id;
  title: string | null;
  state: 'idle' | 'queued' | 'running';
  /** ISO 8601. */
  lastActivityAt: string;
}

/** What the runtime knows about the sessions of one account. The app answers it. */
export abstract class OwnSessions {
  /** How many sessions the account has in each state, and its `limit` latest. @throws UnavailableError */
  abstract look(
    account: Id,
    limit: number,
  ): Promise<{ counts: Record<OwnSession['state'], number>; latest: OwnSession[] }>;
}
