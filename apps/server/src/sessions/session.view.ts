import { Inject, Injectable } from '@nestjs/common';
import type { Session } from '#protocol';
import type { SessionRow } from '#event-ledger';
import { type SessionLoad, Turns } from '#turn-lifecycle';

/** Sessions as callers see them: the ledger's row and what its live turns say. */
@Injectable()
export class SessionView {
  constructor(@Inject(Turns) private readonly turns: Pick<Turns, 'loads'>) {}

  /** One query for a whole page. @throws UnavailableError */
  async ofAll(rows: readonly SessionRow[]): Promise<Session[]> {
    if (rows.length === 0) return [];
    const loads = await this.turns.loads(rows.map(({ session }) => session));
    return rows.map((row, index) => sessionOf(row, loads[index]!));
  }

  async of(row: SessionRow): Promise<Session> {
    const [session] = await this.ofAll([row]);
    return session!;
  }
}

function sessionOf(row: SessionRow, { queued, running }: SessionLoad): Session {
  return {
    sessionId: row.session.sessionId,
    ...(row.title !== null && { title: row.title }),
    ...(row.metadata !== null && { metadata: row.metadata }),
    state: running ? 'running' : queued > 0 ? 'queued' : 'idle',
    lastSeq: row.lastSeq,
    queued,
    runningTurn: running && { turnId: running.turnId, generation: running.generation },
    createdAt: new Date(row.createdAtMs).toISOString(),
    lastActivityAt: new Date(row.lastActivityAtMs).toISOString(),
  };
}
