import { Inject, Module, type OnApplicationShutdown } from '@nestjs/common';
import { KeyNames } from '#protocol';
import { Channels, Clock, type Coordination, COORDINATION, PodIdentity, Settings } from '#platform';
import { LeaseKeeper } from './lease-keeper.js';
import { SessionLocks } from './session-locks.js';
import { MemorySessionLocks } from './session-locks/memory.js';
import { RedisSessionLocks } from './session-locks/redis.js';

function sessionLocks(coordination: Coordination, keys: KeyNames, { leaseTtlMs }: Settings): SessionLocks {
  return coordination.kind === 'redis'
    ? new RedisSessionLocks(coordination.redis, keys, leaseTtlMs)
    : new MemorySessionLocks(coordination.store, keys, leaseTtlMs);
}

function leaseKeeper(
  pod: PodIdentity,
  locks: SessionLocks,
  clock: Clock,
  settings: Settings,
  coordination: Coordination,
  channels: Channels,
): LeaseKeeper {
  const keeper = new LeaseKeeper(pod, locks, clock, settings);
  // What happened to the locks while a connection was away, only a renewal tells.
  coordination.onReconnected(() => void keeper.renewNow());
  channels.onLost(() => keeper.unsubscribed());
  channels.onResubscribed(() => void keeper.subscribed());
  return keeper;
}

/** The leases of sessions. Needs the platform's providers, globally. */
@Module({
  providers: [
    { provide: SessionLocks, useFactory: sessionLocks, inject: [COORDINATION, KeyNames, Settings] },
    {
      provide: LeaseKeeper,
      useFactory: leaseKeeper,
      inject: [PodIdentity, SessionLocks, Clock, Settings, COORDINATION, Channels],
    },
  ],
  exports: [SessionLocks, LeaseKeeper],
})
export class SessionLockModule implements OnApplicationShutdown {
  constructor(@Inject(LeaseKeeper) private readonly keeper: LeaseKeeper) {}

  onApplicationShutdown(): void {
    this.keeper.stop();
  }
}
