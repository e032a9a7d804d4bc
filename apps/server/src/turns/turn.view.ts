import { Inject, Injectable } from '@nestjs/common';
import type { Content, Event, SessionKey, Turn } from '#protocol';
import { Database } from '#platform';
import { EventLedger } from '#event-ledger';
import type { TurnRow } from '#turn-lifecycle';

/** Turns of one session as callers see them: the row, and the content from the ledger. */
@Injectable()
export class TurnView {
  constructor(
    @Inject(Database) private readonly database: Database,
    @Inject(EventLedger) private readonly ledger: Pick<EventLedger, 'eventsAt'>,
  ) {}

  /** One query for a whole page. @throws UnavailableError */
  async ofAll(session: SessionKey, rows: readonly TurnRow[]): Promise<Turn[]> {
    const seqs = rows.flatMap(({ contentSeq }) => contentSeq ?? []);
    const events = seqs.length > 0 ? await this.ledger.eventsAt(this.database, session, seqs) : [];
    const contents = new Map(events.map((event) => [event.seq, contentOf(event)]));
    return rows.map((row) => turnOf(row, row.contentSeq === null ? null : (contents.get(row.contentSeq) ?? null)));
  }

  async of(session: SessionKey, row: TurnRow): Promise<Turn> {
    const [turn] = await this.ofAll(session, [row]);
    return turn!;
  }
}

function contentOf(event: Event): Content | null {
  return event.type === 'message.accepted' || event.type === 'message.edited' ? event.data.content : null;
}

function turnOf(row: TurnRow, content: Content | null): Turn {
  const { sessionId, turnId, generation, state, kind, mode, initiator, parent, attempts, queueSeq, absorbedBy, error } =
    row;
  return {
    ...{ sessionId, turnId, generation, state, kind, mode, content },
    ...(row.metadata !== null && { metadata: row.metadata }),
    ...{ initiator, parent, attempts, queueSeq, absorbedBy, error },
    stop: row.stop && {
      by: row.stop.by,
      ...(row.stop.reason !== undefined && { reason: row.stop.reason }),
      at: new Date(row.stop.atMs).toISOString(),
    },
    acceptedAt: time(row.acceptedAtMs),
    startedAt: time(row.startedAtMs),
    endedAt: time(row.endedAtMs),
  };
}

function time(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
