import { type Id, isId } from '#protocol';

export const SESSIONS = '/v1/sessions';

export function sessionPath(sessionId: Id): string {
  return `${SESSIONS}/${checked(sessionId)}`;
}

export function turnPath(sessionId: Id, turnId: Id): string {
  return `${sessionPath(sessionId)}/turns/${checked(turnId)}`;
}

export function ownershipPath(account: Id, sessionId: Id): string {
  return `/v1/admin/sessions/${checked(account)}/${checked(sessionId)}/ownership`;
}

/** An id needs no escape in a path, and `..` and `a/b`, which would lead to another route, are none. */
function checked(id: Id): Id {
  if (!isId(id))
    throw new TypeError(`Not an id: ${JSON.stringify(id)}. 1 to 128 of A-Z a-z 0-9 . _ ~ -, not "." or "..".`);
  return id;
}
