/**
 * No answer came, or only a part of one, or one that no pod gives: the address cannot be reached, the connection broke,
 * the time was over. What was asked may have happened. `cause` is what fetch said.
 */
export class NetworkError extends Error {
  override readonly name = 'NetworkError';
  /** Whether the same call may go through later. */
  readonly isRetryable = true;
}
