export {
  MessageQueue,
  PartitionMarks,
  type PartitionState,
  type ReadySession,
  type RecordFacts,
  type TakeAnswer,
} from './message-queue.js';
export { FILL_MARK_TTL_MS } from './filling-mark.js';
export { Handover, type QueuedTurn } from './handover.js';
export { MessageQueueModule } from './message-queue.module.js';
export { MemoryMessageQueue } from './message-queue/memory.js';
export { type QueueTimes, RedisMessageQueue } from './message-queue/redis.js';
export { AnnouncedWork, WaitingWork } from './waiting-work.js';
export { MemoryPartitionMarks } from './partition-marks/memory.js';
export { RedisPartitionMarks } from './partition-marks/redis.js';
