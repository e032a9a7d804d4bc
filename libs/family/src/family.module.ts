import { Module } from '@nestjs/common';
import { EventLedgerModule } from '#event-ledger';
import { MessageQueueModule } from '#message-queue';
import { TurnLifecycleModule } from '#turn-lifecycle';
import { Family } from './family.js';
import { Reports } from './reports.js';

/** What concerns a turn and its kin. */
@Module({
  imports: [TurnLifecycleModule, EventLedgerModule, MessageQueueModule],
  providers: [Family, Reports],
  exports: [Family, Reports],
})
export class FamilyModule {}
