/** One event is larger than the ledger takes. Terminal: nothing of its append was written. */
export class EventTooLargeError extends Error {
  override readonly name = 'EventTooLargeError';

  constructor(type: string, bytes: number, maxBytes: number) {
    super(`an event ${type} of ${bytes} bytes is over the limit of ${maxBytes}`);
  }
}
