import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import type { Request, RequestHandler } from 'express';
import { ButlerError, type FieldError } from '#protocol';

const MAX_DEPTH = 16;
const MAX_FAULTS = 20;

/** Names that every object has already, or that reach its prototype: no field may be called so. */
const RESERVED = new Set([...Object.getOwnPropertyNames(Object.prototype), 'prototype']);

/** Refuses bytes that are no UTF-8, which would become replacement characters without a word. */
export function assertUtf8(_request: IncomingMessage, _response: ServerResponse, body: Buffer): void {
  if (!isUtf8(body)) throw new ButlerError('validation_failed', 'The body is not valid UTF-8.');
}

/**
 * Looks at the body and the query as they came, before anything is copied from them: what transforms them later drops
 * or follows such names silently. Iterative, so that no depth is too much for the stack.
 */
export const refuseReservedNames: RequestHandler = (request, _response, next) => {
  const body: unknown = request.body;
  const faults = [...faultsOf(body), ...faultsOf(request.query)];
  if (Array.isArray(body)) faults.push({ path: '', message: 'must be a JSON object' });
  if (faults.length === 0) return next();
  next(
    new ButlerError('validation_failed', 'The request has fields that are not allowed.', {
      errors: faults.slice(0, MAX_FAULTS),
    }),
  );
};

function faultsOf(root: unknown): FieldError[] {
  const faults: FieldError[] = [];
  const waiting = [{ value: root, path: '', depth: 0 }];
  while (waiting.length > 0 && faults.length < MAX_FAULTS) {
    const { value, path, depth } = waiting.pop()!;
    if (typeof value !== 'object' || value === null) continue;
    if (depth === MAX_DEPTH) {
      faults.push({ path, message: `must not be nested deeper than ${MAX_DEPTH} levels` });
      continue;
    }
    for (const [name, inner] of Object.entries(value)) {
      const at = Array.isArray(value) ? `${path}[${name}]` : path ? `${path}.${name}` : name;
      if (RESERVED.has(name)) faults.push({ path: at, message: 'is a reserved name' });
      else waiting.push({ value: inner, path: at, depth: depth + 1 });
    }
  }
  return faults;
}

/**
 * Calls that carry a body must say that it is JSON: a web page of another origin cannot say so without being asked. A call
 * without one counts as `{}`, but not from such a page, which browsers tell.
 */
@Injectable()
export class JsonBodyGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<Request>();
    const { method, headers } = request;
    if (method !== 'POST' && method !== 'PATCH') return true;
    if (!hasBody(headers) && OWN_SITES.has(headers['sec-fetch-site'])) {
      request.body = {};
      return true;
    }
    const mediaType = (headers['content-type'] ?? '').split(';')[0]!.trim().toLowerCase();
    if (mediaType === 'application/json') return true;
    throw new ButlerError('unsupported_media_type', 'Send JSON, with Content-Type: application/json.');
  }
}

/** What browsers say of a page's own calls; other programs say nothing. */
const OWN_SITES = new Set<unknown>([undefined, 'none', 'same-origin']);

function hasBody(headers: IncomingHttpHeaders): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}
