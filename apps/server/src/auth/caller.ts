import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import type { Id } from '#protocol';

export const SCOPES = ['user', 'admin', 'operator'] as const;
export type Scope = (typeof SCOPES)[number];

/** Who calls: which account, which user in it, and what they may do. */
export interface Caller {
  account: Id;
  /** The user: any text, never part of a key. */
  initiator: string;
  scopes: ReadonlySet<Scope>;
}

const callers = new WeakMap<Request, Caller>();

export function rememberCaller(request: Request, caller: Caller): void {
  callers.set(request, caller);
}

/** The caller of a route that is not `Open`. */
export const CurrentCaller = createParamDecorator((_: unknown, context: ExecutionContext): Caller => {
  const caller = callers.get(context.switchToHttp().getRequest<Request>());
  if (!caller) throw new Error('a route asks for its caller but lets everybody in');
  return caller;
});
