import { Module } from '@nestjs/common';
import { EventLedgerModule } from '#event-ledger';
import { FamilyModule } from '#family';
import { MessageQueueModule } from '#message-queue';
import { TurnLifecycleModule } from '#turn-lifecycle';
import { AdmissionGate } from './admission.gate.js';
import { Intake } from './intake.js';
import { Refusals } from './refusals.js';
import { RetryGate } from './retry.gate.js';
import { SpawnGate } from './spawn.gate.js';
import { StopGate } from './stop.gate.js';

@Module({
  imports: [TurnLifecycleModule, EventLedgerModule, MessageQueueModule, FamilyModule],
  providers: [AdmissionGate, StopGate, RetryGate, SpawnGate, Refusals, Intake],
  exports: [Intake],
})
export class IntakeModule {}
