import { Inject, Injectable } from '@nestjs/common';
import { ButlerError, type SessionKey } from '#protocol';
import { EventLedger, type SessionRow } from '#event-ledger';

/** The sessions that routes speak of. */
@Injectable()
export class SessionFinder {
  constructor(@Inject(EventLedger) private readonly ledger: EventLedger) {}

  /** @throws ButlerError not_found, in the same words whether it is of another account or of nobody; UnavailableError */
  async find(session: SessionKey): Promise<SessionRow> {
    const row = await this.ledger.findSession(session);
    if (!row) throw noSuchSession(session);
    return row;
  }
}

export function noSuchSession({ sessionId }: SessionKey): ButlerError {
  return new ButlerError('not_found', 'There is no such session.', { sessionId });
}
