import { type SessionKey, sessionName } from '#protocol';
import type { Tx } from '#platform';
import type { EventLedger, SessionHead } from '#event-ledger';

/** The locked heads of the sessions that one transaction writes to. */
export class Heads {
  private constructor(private readonly byName: ReadonlyMap<string, SessionHead>) {}

  /** Locks sessions' rows in one round trip, in sorted order. After every turn's lock. Those that are new are opened. */
  static async lock(tx: Tx, ledger: EventLedger, sessions: readonly SessionKey[]): Promise<Heads> {
    const distinct = [...new Map(sessions.map((session) => [sessionName(session), session])).values()];
    const heads = await Promise.all(distinct.map((session) => ledger.openHead(tx, session)));
    return new Heads(new Map(heads.map((head) => [sessionName(head.session), head])));
  }

  of(session: SessionKey): SessionHead {
    const head = this.byName.get(sessionName(session));
    if (!head) throw new Error(`the transaction has not locked session ${session.sessionId}`);
    return head;
  }
}
