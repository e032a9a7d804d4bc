import { Module } from '@nestjs/common';
import { EventLedgerModule } from '#event-ledger';
import { FamilyModule } from '#family';
import { MessageQueueModule } from '#message-queue';
import { TurnLifecycleModule } from '#turn-lifecycle';
import { AdmissionGate } from './admission.gate.js';
import { EditGate } from './edit.gate.js';
import { InterruptGate } from './interrupt.gate.js';
import { Intake } from './intake.js';
import { Refusals } from './refusals.js';
import { RetryGate } from './retry.gate.js';
import { SpawnGate } from './spawn.gate.js';
import { StopGate } from './stop.gate.js';

@Module({
  imports: [TurnLifecycleModule, EventLedgerModule, MessageQueueModule, FamilyModule],
  providers: [AdmissionGate, InterruptGate, EditGate, StopGate, RetryGate, SpawnGate, Refusals, Intake],
  exports: [Intake],
})
export class IntakeModule {}
