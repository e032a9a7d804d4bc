import { Module } from '@nestjs/common';
import { EventLedgerModule } from '#event-ledger';
import { TurnLifecycleModule } from '#turn-lifecycle';
import { Finish } from './finish.js';
import { StartGate } from './start-gate.js';
import { TurnRunner } from './turn-runner.js';

/** The importing app provides the `Agent`, globally. */
@Module({
  imports: [TurnLifecycleModule, EventLedgerModule],
  providers: [StartGate, Finish, TurnRunner],
  exports: [TurnRunner],
})
export class TurnRunnerModule {}
