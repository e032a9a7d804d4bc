export { batchesByPartition } from './batches.js';
export { Certainty } from './certainty.js';
export { Lease } from './lease.js';
export { type LeaseAnswer, LeaseKeeper, type LeaseTimes } from './lease-keeper.js';
export { SessionLockModule } from './session-lock.module.js';
export {
  type AcquireAnswer,
  type Hold,
  type ReleaseAnswer,
  type ReleaseManner,
  SessionLocks,
} from './session-locks.js';
export { MemorySessionLocks } from './session-locks/memory.js';
export { RedisSessionLocks } from './session-locks/redis.js';
