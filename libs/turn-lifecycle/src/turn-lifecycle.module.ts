import { Module } from '@nestjs/common';
import { KeyNames } from '#protocol';
import { type Coordination, COORDINATION, Database, Settings } from '#platform';
import { TurnRecords } from './turn-records.js';
import { MemoryTurnRecords } from './turn-records/memory.js';
import { RedisTurnRecords } from './turn-records/redis.js';
import { Turns } from './turns.js';
import { SqlTurns } from './turns/sql.js';

function turnRecords(coordination: Coordination, keys: KeyNames, { turnRecordTtlMs }: Settings): TurnRecords {
  return coordination.kind === 'redis'
    ? new RedisTurnRecords(coordination.redis, keys, turnRecordTtlMs)
    : new MemoryTurnRecords(coordination.store, keys, turnRecordTtlMs);
}

/** The turns' rows and their lifecycle records. Needs the platform's providers, globally. */
@Module({
  providers: [
    { provide: Turns, useFactory: (database: Database) => new SqlTurns(database), inject: [Database] },
    { provide: TurnRecords, useFactory: turnRecords, inject: [COORDINATION, KeyNames, Settings] },
  ],
  exports: [Turns, TurnRecords],
})
export class TurnLifecycleModule {}
