/** An id as callers may choose it: sessions, turns, accounts. Compared byte by byte; never contains what keys are built of. */
export type Id = string;

export const ID_PATTERN = /^[A-Za-z0-9._~-]{1,128}$/;

export function isId(value: unknown): value is Id {
  return typeof value === 'string' && ID_PATTERN.test(value) && value !== '.' && value !== '..';
}

/** One session of one account. */
export interface SessionKey {
  account: Id;
  sessionId: Id;
}

/** A session as one string, for maps. `/` cannot occur in an id, so two sessions never share one. */
export function sessionName(session: SessionKey): string {
  return `${session.account}/${session.sessionId}`;
}

/** The session that `sessionName` wrote. */
export function parseSessionName(name: string): SessionKey {
  const slash = name.indexOf('/');
  return { account: name.slice(0, slash), sessionId: name.slice(slash + 1) };
}
