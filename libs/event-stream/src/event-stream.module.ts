import { Module } from '@nestjs/common';
import { EventLedgerModule } from '#event-ledger';
import { SessionStreams } from './session-streams.js';

@Module({
  imports: [EventLedgerModule],
  providers: [SessionStreams],
  exports: [SessionStreams],
})
export class EventStreamModule {}
