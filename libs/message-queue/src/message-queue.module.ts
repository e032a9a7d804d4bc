import { Module } from '@nestjs/common';
import { KeyNames } from '#protocol';
import { Clock, type Coordination, COORDINATION, Settings } from '#platform';
import { Handover } from './handover.js';
import { MessageQueue, PartitionMarks } from './message-queue.js';
import { MemoryMessageQueue } from './message-queue/memory.js';
import { RedisMessageQueue } from './message-queue/redis.js';
import { MemoryPartitionMarks } from './partition-marks/memory.js';
import { RedisPartitionMarks } from './partition-marks/redis.js';

function messageQueue(coordination: Coordination, keys: KeyNames, settings: Settings, clock: Clock): MessageQueue {
  return coordination.kind === 'redis'
    ? new RedisMessageQueue(coordination.redis, keys, settings)
    : new MemoryMessageQueue(coordination.store, keys, settings, clock);
}

function partitionMarks(coordination: Coordination, keys: KeyNames): PartitionMarks {
  return coordination.kind === 'redis'
    ? new RedisPartitionMarks(coordination.redis, keys)
    : new MemoryPartitionMarks(coordination.store, keys);
}

/** The waiting lines of sessions. Needs the platform's providers and WaitingWork, globally. */
@Module({
  providers: [
    { provide: MessageQueue, useFactory: messageQueue, inject: [COORDINATION, KeyNames, Settings, Clock] },
    { provide: PartitionMarks, useFactory: partitionMarks, inject: [COORDINATION, KeyNames] },
    Handover,
  ],
  exports: [MessageQueue, PartitionMarks, Handover],
})
export class MessageQueueModule {}
