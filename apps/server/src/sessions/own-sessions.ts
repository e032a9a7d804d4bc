import { Inject, Injectable } from '@nestjs/common';
import type { Id } from '#protocol';
import { type OwnSession, OwnSessions } from '#agents';
import { EventLedger, type SessionRow } from '#event-ledger';
import { SessionView } from './session.view.js';

const PAGE = 500;
/** Sessions counted at most: an answer in a chat is not worth reading an account of a million. */
const COUNTED_MAX = 5000;

/** What the local agent may tell an account about its sessions. */
@Injectable()
export class LedgerOwnSessions extends OwnSessions {
  constructor(
    @Inject(EventLedger) private readonly ledger: Pick<EventLedger, 'listSessions'>,
    @Inject(SessionView) private readonly view: SessionView,
  ) {
    super();
  }

  override async look(
    account: Id,
    limit: number,
  ): Promise<{ counts: Record<OwnSession['state'], number>; latest: OwnSession[] }> {
    const counts = { idle: 0, queued: 0, running: 0 };
    const latest: OwnSession[] = [];
    let counted = 0;
    let last: SessionRow | undefined;
    do {
      const after = last ? { lastActivityAtMs: last.lastActivityAtMs, sessionId: last.session.sessionId } : null;
      const rows = await this.ledger.listSessions(account, after, PAGE);
      for (const { sessionId, title = null, state, lastActivityAt } of await this.view.ofAll(rows)) {
        counts[state]++;
        if (latest.length < limit) latest.push({ sessionId, title, state, lastActivityAt });
      }
      counted += rows.length;
      last = rows.length === PAGE ? rows.at(-1) : undefined;
    } while (last && counted < COUNTED_MAX);
    return { counts, latest };
  }
}
