import type { Dialect } from '#platform';
import { EntitySchema } from 'typeorm';

/**
 * The table `turn` as stored; times in ms since 1970 UTC. `live` is 1 while the turn is queued, running or
 * stop_requested and null afterwards, so that reading live turns costs nothing for those that have ended; `part` is the
 * session's partition. The hot path reads it as rows, see turns/turn-rows.ts.
 */
export interface TurnEntity {
  account: string;
  turnId: string;
  sessionId: string;
  part: number;
  live: number | null;
  path: string;
  parentSessionId: string | null;
  parentTurnId: string | null;
  parentGeneration: number | null;
  state: string;
  generation: number;
  queueSeq: number | null;
  acceptedSeq: number | null;
  contentSeq: number | null;
  mode: string;
  kind: string;
  initiator: string | null;
  metadata: string | null;
  digest: string | null;
  attempts: number;
  absorbedByTurnId: string | null;
  absorbedByGeneration: number | null;
  stopBy: string | null;
  stopReason: string | null;
  stopAt: number | null;
  stopViaTurnId: string | null;
  stopViaGeneration: number | null;
  error: string | null;
  acceptedAt: number | null;
  queuedAt: number | null;
  startedAt: number | null;
  endedAt: number | null;
  refusedAt: number | null;
}

export function turnEntity(kind: Dialect['kind']): EntitySchema<TurnEntity> {
  const ascii = kind === 'mysql' ? { charset: 'ascii', collation: 'ascii_bin' } : {};
  const text = kind === 'mysql' ? { charset: 'utf8mb4', collation: 'utf8mb4_bin' } : {};
  const id = { type: 'varchar', length: 128, ...ascii } as const;
  const word = { type: 'varchar', length: 16, ...ascii } as const;
  const person = { type: 'varchar', length: 256, ...text } as const;
  const long = { type: kind === 'mysql' ? 'longtext' : 'text', ...text } as const;
  const bigint = { type: 'bigint' } as const;
  const nullable = true;
  return new EntitySchema<TurnEntity>({
    name: 'turn',
    tableName: 'turn',
    columns: {
      account: { ...id, primary: true },
      turnId: { ...id, name: 'turn_id', primary: true },
      sessionId: { ...id, name: 'session_id' },
      part: { type: 'smallint' },
      live: { type: 'tinyint', nullable },
      path: { type: 'varchar', length: 1200, ...ascii },
      parentSessionId: { ...id, name: 'parent_session_id', nullable },
      parentTurnId: { ...id, name: 'parent_turn_id', nullable },
      parentGeneration: { type: 'int', name: 'parent_generation', nullable },
      state: word,
      generation: { type: 'int' },
      queueSeq: { ...bigint, name: 'queue_seq', nullable },
      acceptedSeq: { ...bigint, name: 'accepted_seq', nullable },
      contentSeq: { ...bigint, name: 'content_seq', nullable },
      mode: word,
      kind: word,
      initiator: { ...person, nullable },
      metadata: { ...long, nullable },
      digest: { ...id, nullable },
      attempts: { type: 'int' },
      absorbedByTurnId: { ...id, name: 'absorbed_by_turn_id', nullable },
      absorbedByGeneration: { type: 'int', name: 'absorbed_by_generation', nullable },
      stopBy: { ...person, name: 'stop_by', nullable },
      stopReason: { ...long, name: 'stop_reason', nullable },
      stopAt: { ...bigint, name: 'stop_at', nullable },
      stopViaTurnId: { ...id, name: 'stop_via_turn_id', nullable },
      stopViaGeneration: { type: 'int', name: 'stop_via_generation', nullable },
      error: { ...long, nullable },
      acceptedAt: { ...bigint, name: 'accepted_at', nullable },
      queuedAt: { ...bigint, name: 'queued_at', nullable },
      startedAt: { ...bigint, name: 'started_at', nullable },
      endedAt: { ...bigint, name: 'ended_at', nullable },
      refusedAt: { ...bigint, name: 'refused_at', nullable },
    },
    indices: [
      { name: 'turn_live', columns: ['live', 'part', 'account', 'sessionId', 'queueSeq'] },
      { name: 'turn_order', columns: ['account', 'sessionId', 'queueSeq'] },
      { name: 'turn_path', columns: ['account', 'path'] },
    ],
  });
}
