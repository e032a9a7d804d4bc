import { Module } from '@nestjs/common';
import { MessageQueueModule } from '#message-queue';
import { TurnLifecycleModule } from '#turn-lifecycle';
import { PartitionFilling } from './partition-filling.js';
import { Reconciler } from './reconciler.js';
import { Recovery } from './recovery.js';

/** The importing app provides `WaitingWork`, globally. */
@Module({
  imports: [MessageQueueModule, TurnLifecycleModule],
  providers: [PartitionFilling, Reconciler, Recovery],
  exports: [PartitionFilling, Recovery],
})
export class RecoveryModule {}
