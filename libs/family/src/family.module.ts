import { Module } from '@nestjs/common';
import { EventLedgerModule } from '#event-ledger';
import { TurnLifecycleModule } from '#turn-lifecycle';
import { Family } from './family.js';

/** What concerns a turn and its kin. */
@Module({
  imports: [TurnLifecycleModule, EventLedgerModule],
  providers: [Family],
  exports: [Family],
})
export class FamilyModule {}
