import { type CanActivate, type ExecutionContext, Injectable, SetMetadata } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { Inject } from '@nestjs/common';
import type { Request } from 'express';
import { ButlerError } from '#protocol';
import { rememberCaller, type Scope, SCOPES } from './caller.js';
import { devCaller } from './dev-caller.js';

const OPEN = Symbol('open');
const NEEDS = Symbol('needs');

/** Lets everybody in. */
export const Open = (): ClassDecorator => SetMetadata(OPEN, true);

/** Lets in whoever has one of these scopes; by default any of them all. */
export const Needs = (...scopes: Scope[]): ClassDecorator => SetMetadata(NEEDS, scopes);

/** Finds out who calls, and whether the scope allows it. AUTH_MODE=dev: from plain headers. */
@Injectable()
export class CallerGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    const places = [context.getHandler(), context.getClass()];
    if (this.reflector.getAllAndOverride<boolean>(OPEN, places)) return true;
    const request = context.switchToHttp().getRequest<Request>();
    const caller = devCaller(request.headers);
    const needed = this.reflector.getAllAndOverride<Scope[] | undefined>(NEEDS, places) ?? SCOPES;
    if (!needed.some((scope) => caller.scopes.has(scope))) {
      throw new ButlerError('forbidden', `This needs one of the scopes: ${needed.join(', ')}.`);
    }
    rememberCaller(request, caller);
    return true;
  }
}
