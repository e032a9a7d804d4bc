/**
 * A server that this pod stands on did not answer in time, or refused. Retryable. What was asked may still have happened.
 */
export class UnavailableError extends Error {
  override readonly name = 'UnavailableError';

  constructor(
    readonly what: 'database' | 'redis',
    message: string,
    options?: { cause?: unknown },
  ) {
    super(message, options);
  }
}
