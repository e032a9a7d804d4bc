import type { RequestHandler } from 'express';
import { ButlerError } from '#protocol';

const LOCAL = ['localhost', '127.0.0.1', '[::1]'];

/**
 * For AUTH_MODE=dev, which believes every caller: only requests for these hosts, so that a web page that the developer
 * visits cannot reach the pod through a name that it points here. Probes call by address, and are told nothing of anybody.
 */
export function allowedHosts(further: readonly string[]): RequestHandler {
  const allowed = new Set([...LOCAL, ...further.map((host) => host.toLowerCase())]);
  return (request, _response, next) => {
    // A request that names several hosts is told them all, not only the first, and so is refused.
    const host = (request.headersDistinct.host ?? []).join(', ').toLowerCase().replace(/:\d*$/, '');
    if (allowed.has(host) || request.path.startsWith('/health/')) return next();
    next(
      new ButlerError('forbidden', `The host "${host}" is not allowed with AUTH_MODE=dev. Add it to ALLOWED_HOSTS.`),
    );
  };
}
