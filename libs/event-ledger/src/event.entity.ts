import type { Dialect } from '#platform';
import { EntitySchema } from 'typeorm';

/**
 * The table `event` as stored. `eventId` is the id of the append that wrote the row; it has no index: it is only looked
 * for among the last rows of one session.
 */
export interface EventEntity {
  account: string;
  sessionId: string;
  seq: number;
  eventId: string;
  type: string;
  turnId: string | null;
  generation: number | null;
  at: number;
  data: string;
}

export function eventEntity(kind: Dialect['kind']): EntitySchema<EventEntity> {
  const ascii = kind === 'mysql' ? { charset: 'ascii', collation: 'ascii_bin' } : {};
  const text = kind === 'mysql' ? { charset: 'utf8mb4', collation: 'utf8mb4_bin' } : {};
  const id = { type: 'varchar', length: 128, ...ascii } as const;
  return new EntitySchema<EventEntity>({
    name: 'event',
    tableName: 'event',
    columns: {
      account: { ...id, primary: true },
      sessionId: { ...id, name: 'session_id', primary: true },
      seq: { type: 'bigint', primary: true },
      eventId: { type: 'varchar', length: 191, name: 'event_id', ...ascii },
      type: { type: 'varchar', length: 32, ...ascii },
      turnId: { ...id, name: 'turn_id', nullable: true },
      generation: { type: 'int', nullable: true },
      at: { type: 'bigint' },
      data: { type: kind === 'mysql' ? 'longtext' : 'text', ...text },
    },
  });
}
