import { Module } from '@nestjs/common';
import { EventLedgerModule } from '#event-ledger';
import { MessageQueueModule } from '#message-queue';
import { TurnLifecycleModule } from '#turn-lifecycle';
import { AdmissionGate } from './admission.gate.js';
import { Intake } from './intake.js';

@Module({
  imports: [TurnLifecycleModule, EventLedgerModule, MessageQueueModule],
  providers: [AdmissionGate, Intake],
  exports: [Intake],
})
export class IntakeModule {}
