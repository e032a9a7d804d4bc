import type { RequestHandler } from 'express';
import { isId } from '#protocol';
import type { Randomness } from '#platform';

export const REQUEST_ID = 'X-Request-Id';

/** Names every request, in its answer and in the log: as the caller did, or with an id of its own. */
export function requestId(randomness: Randomness): RequestHandler {
  return (request, response, next) => {
    const given = request.headers['x-request-id'];
    const id = isId(given) ? given : randomness.id();
    Object.assign(request, { id });
    response.setHeader(REQUEST_ID, id);
    next();
  };
}
