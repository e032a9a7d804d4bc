import { Injectable } from '@nestjs/common';
import type { RequestHandler } from 'express';
import { ButlerError } from '#protocol';
import { Drain } from '#platform';
import { Inject } from '@nestjs/common';

/**
 * Whether calls are still served. While the pod drains they are, each on a connection that closes behind it, so that
 * callers move to other pods. After `close` they are answered 503 `draining`; probes are answered to the end.
 */
@Injectable()
export class FrontDoor {
  private closed = false;

  constructor(@Inject(Drain) private readonly drain: Drain) {}

  close(): void {
    this.closed = true;
  }

  readonly enter: RequestHandler = (request, response, next) => {
    if (this.drain.started) response.setHeader('Connection', 'close');
    if (!this.closed || request.path.startsWith('/health/')) return next();
    next(new ButlerError('draining', 'This pod is on its way out. Send it again: another pod takes it.'));
  };
}
