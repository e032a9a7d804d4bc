import type { Dialect } from '#platform';
import { EntitySchema } from 'typeorm';

/** The table `session` as stored; times in ms since 1970 UTC. The hot path reads it as rows, see event-ledgers/session-rows.ts. */
export interface SessionEntity {
  account: string;
  sessionId: string;
  nextSeq: number;
  ownerEpoch: number;
  /** The session of the turn that opened it for a child; null when a user did. */
  spawnedBy: string | null;
  title: string | null;
  metadata: string | null;
  digest: string;
  createdAt: number;
  lastActivityAt: number;
}

export function sessionEntity(kind: Dialect['kind']): EntitySchema<SessionEntity> {
  const ascii = kind === 'mysql' ? { charset: 'ascii', collation: 'ascii_bin' } : {};
  const text = kind === 'mysql' ? { charset: 'utf8mb4', collation: 'utf8mb4_bin' } : {};
  const id = { type: 'varchar', length: 128, ...ascii } as const;
  const long = { type: kind === 'mysql' ? 'longtext' : 'text', ...text } as const;
  return new EntitySchema<SessionEntity>({
    name: 'session',
    tableName: 'session',
    columns: {
      account: { ...id, primary: true },
      sessionId: { ...id, name: 'session_id', primary: true },
      nextSeq: { type: 'bigint', name: 'next_seq' },
      ownerEpoch: { type: 'bigint', name: 'owner_epoch' },
      spawnedBy: { ...id, name: 'spawned_by', nullable: true },
      title: { ...long, nullable: true },
      metadata: { ...long, nullable: true },
      digest: { type: 'varchar', length: 128, ...ascii },
      createdAt: { type: 'bigint', name: 'created_at' },
      lastActivityAt: { type: 'bigint', name: 'last_activity_at' },
    },
    indices: [{ name: 'session_activity', columns: ['account', 'lastActivityAt', 'sessionId'] }],
  });
}
