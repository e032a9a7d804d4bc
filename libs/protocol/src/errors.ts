import type { Id } from './ids.js';
import type { TurnState } from './turn-state.js';

/**
 * Every refusal that the contract names, with its HTTP status. Libraries throw `ButlerError` with a code; one filter in
 * the app translates.
 */
export const ERROR_STATUS = {
  validation_failed: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  turn_stopped: 409,
  turn_ended: 409,
  session_exists: 409,
  turn_mismatch: 409,
  stale_generation: 409,
  session_busy: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  queue_full: 429,
  rate_limited: 429,
  internal_error: 500,
  ledger_unavailable: 503,
  coordination_unavailable: 503,
  draining: 503,
} as const;
export type ErrorCode = keyof typeof ERROR_STATUS;

export interface FieldError {
  path: string;
  message: string;
}

/** Facts that a refusal may tell beside its words. */
export interface ErrorFacts {
  errors?: FieldError[];
  sessionId?: Id;
  turnId?: Id;
  generation?: number;
  state?: TurnState;
  lastSeq?: number;
  retryAfterS?: number;
}

/** A refusal with a stable code. `message` tells the caller what to do next. */
export class ButlerError extends Error {
  override readonly name = 'ButlerError';

  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly facts: ErrorFacts = {},
    options?: { cause?: unknown },
  ) {
    super(message, options);
  }
}

/** The owner's write was refused because a newer epoch has claimed the session, or the lease is not trusted any more. */
export class StaleOwnerError extends Error {
  override readonly name = 'StaleOwnerError';
}
