import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException, Logger } from '@nestjs/common';
import type { Request, Response } from 'express';
import { ButlerError, type ErrorCode } from '#protocol';
import { UnavailableError } from '#platform';
import { problemOf } from './problem.js';

/** What the framework refuses by itself, by status. */
const CODES: Record<number, ErrorCode> = {
  400: 'validation_failed',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  405: 'not_found',
  413: 'payload_too_large',
  415: 'unsupported_media_type',
  429: 'rate_limited',
};

/**
 * The one place where errors become HTTP. A refusal tells its code and facts; everything else is told as
 * `internal_error` without details, and logged with them.
 */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  private readonly logger = new Logger(ProblemFilter.name);

  catch(error: unknown, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<Response>();
    const request = host.switchToHttp().getRequest<Request>();
    const refusal = this.refusalOf(error, request);
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const { problem, retryAfterS } = problemOf(refusal.code, refusal.message, refusal.facts);
    if (retryAfterS !== null) response.setHeader('Retry-After', String(retryAfterS));
    response.status(problem.status).type('application/problem+json').send(JSON.stringify(problem));
  }

  private refusalOf(error: unknown, request: Request): ButlerError {
    if (error instanceof ButlerError) return error;
    if (error instanceof UnavailableError) return this.unavailable(error);
    if (error instanceof HttpException) {
      if (error.cause instanceof ButlerError) return error.cause;
      const code = CODES[error.getStatus()];
      if (code) return new ButlerError(code, detailOf(error, request));
    }
    this.logger.error({ err: error, requestId: request.id }, 'a request failed for an unknown reason');
    return new ButlerError(
      'internal_error',
      'Something went wrong in the server. It has been logged with the request id.',
    );
  }

  private unavailable(error: UnavailableError): ButlerError {
    this.logger.warn({ err: error }, 'a request was refused because a server that this pod stands on is away');
    return error.what === 'database'
      ? new ButlerError(
          'ledger_unavailable',
          'The ledger cannot be reached. What was asked may have happened: send the same again.',
        )
      : new ButlerError(
          'coordination_unavailable',
          'Coordination cannot be reached. Nothing was done: send the same again.',
        );
  }
}

function detailOf(error: HttpException, request: Request): string {
  const { cause } = error;
  if (cause instanceof URIError)
    return 'The path is not valid: a percent sign must be followed by the code of a character.';
  if (cause instanceof SyntaxError) return 'The body is not valid JSON.';
  if (error.getStatus() === 404) return `There is no ${request.method} ${request.path}. The routes stand in /docs.`;
  if (error.getStatus() === 413) return 'The body is larger than MESSAGE_MAX_BYTES.';
  return error.message;
}
