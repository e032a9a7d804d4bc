import type { Connection, RowDataPacket } from 'mysql2/promise';
import { PARTITIONS, partitionOf } from '#protocol';

const ACCOUNT = 'bench';
const CONTENT = 'sleep 3600000';
const ROWS_AT_ONCE = 2_000;

/** A live turn as the ledger has it. */
export interface LiveRow {
  session: string;
  envelope: string;
}

/** Puts queued turns into the ledger, as if their messages had been accepted. */
export async function queueTurns(sql: Connection, sessions: number, turnsEach: number): Promise<void> {
  const at = Date.now();
  const names = Array.from({ length: sessions }, (_, nth) => `refill-${nth}`);
  const each = names.flatMap((session) => Array.from({ length: turnsEach }, (_, nth) => ({ session, seq: nth + 1 })));
  await insert(sql, 'session (account, session_id, next_seq, owner_epoch, digest, created_at, last_activity_at)', [
    ...names.map((session) => [ACCOUNT, session, turnsEach + 1, 0, 'd', at, at]),
  ]);
  const said = JSON.stringify({ content: CONTENT, mode: 'enqueue', kind: 'user', initiator: 'ann' });
  await insert(sql, 'event (account, session_id, seq, event_id, type, turn_id, generation, at, data)', [
    ...each.map(({ session, seq }) => {
      const turn = `${session}.${seq}`;
      return [ACCOUNT, session, seq, `${turn}/0`, 'message.accepted', turn, 1, at, said];
    }),
  ]);
  const columns =
    'account, turn_id, session_id, part, live, path, state, generation, queue_seq, accepted_seq, content_seq, mode, kind, initiator, digest, attempts, accepted_at, queued_at';
  await insert(sql, `turn (${columns})`, [
    ...each.map(({ session, seq }) => {
      const [turn, part] = [`${session}.${seq}`, partitionOf({ account: ACCOUNT, sessionId: session })];
      const places = [seq, seq, seq];
      return [
        ...[ACCOUNT, turn, session, part, 1, turn, 'queued', 1, ...places],
        ...['enqueue', 'user', 'ann', 'd', 0, at, at],
      ];
    }),
  ]);
}

/** All live turns, partition by partition, each session in its order. */
export async function* liveTurns(sql: Connection): AsyncGenerator<LiveRow[]> {
  for (let part = 0; part < PARTITIONS; part++) {
    const [rows] = await sql.query<RowDataPacket[]>(
      'SELECT session_id, turn_id, generation FROM turn WHERE live = 1 AND part = ? ORDER BY account, session_id, queue_seq',
      [part],
    );
    yield rows.map(({ session_id: session, turn_id: turnId, generation }) => ({
      session: `${ACCOUNT}:${session as string}`,
      envelope: JSON.stringify({ turnId: turnId as string, generation: generation as number }),
    }));
  }
}

async function insert(sql: Connection, into: string, rows: readonly unknown[][]): Promise<void> {
  for (let from = 0; from < rows.length; from += ROWS_AT_ONCE) {
    await sql.query(`INSERT INTO ${into} VALUES ?`, [rows.slice(from, from + ROWS_AT_ONCE)]);
  }
}
