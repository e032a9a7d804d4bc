import { Module } from '@nestjs/common';
import { EventLedgerModule } from '#event-ledger';
import { FamilyModule } from '#family';
import { TurnLifecycleModule } from '#turn-lifecycle';
import { Absorption } from './absorption.js';
import { Finish } from './finish.js';
import { StartGate } from './start-gate.js';
import { TurnRunner } from './turn-runner.js';

/** The importing app provides the `Agent` and the `ChildDoor`, globally. */
@Module({
  imports: [TurnLifecycleModule, EventLedgerModule, FamilyModule],
  providers: [StartGate, Finish, Absorption, TurnRunner],
  exports: [TurnRunner],
})
export class TurnRunnerModule {}
