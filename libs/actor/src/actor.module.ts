import { Module } from '@nestjs/common';
import { EventLedgerModule } from '#event-ledger';
import { MessageQueueModule } from '#message-queue';
import { SessionLockModule } from '#session-lock';
import { ActorSupervisor } from './actor-supervisor.js';
import { PodPresence } from './pod-presence.js';

/** The importing app provides `TurnHandler` and `PartitionFiller`, globally. */
@Module({
  imports: [SessionLockModule, MessageQueueModule, EventLedgerModule],
  providers: [ActorSupervisor, PodPresence],
  exports: [ActorSupervisor, PodPresence],
})
export class ActorModule {}
