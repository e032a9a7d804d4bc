import type { IncomingHttpHeaders } from 'node:http';
import { ButlerError, isId } from '#protocol';
import { type Caller, type Scope, SCOPES } from './caller.js';

const INITIATOR_MAX_CHARS = 256;
const DEFAULT_SCOPES = 'admin operator';

/** For development: whoever the headers say. @throws ButlerError unauthorized */
export function devCaller(headers: IncomingHttpHeaders): Caller {
  const account = headers['x-account-id'] ?? 'dev';
  if (!isId(account)) {
    throw new ButlerError(
      'unauthorized',
      'x-account-id must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ - and not "." or "..".',
    );
  }
  const initiator = String(headers['x-user-id'] ?? 'dev');
  if (initiator.length === 0 || initiator.length > INITIATOR_MAX_CHARS) {
    throw new ButlerError('unauthorized', `x-user-id must be 1 to ${INITIATOR_MAX_CHARS} characters.`);
  }
  const words = String(headers['x-scope'] ?? DEFAULT_SCOPES).split(' ');
  return {
    account,
    initiator,
    scopes: new Set(words.filter((word): word is Scope => SCOPES.some((scope) => scope === word))),
  };
}
