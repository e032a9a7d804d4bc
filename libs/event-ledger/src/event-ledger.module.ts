import { Module } from '@nestjs/common';
import { KeyNames } from '#protocol';
import { Channels, Database } from '#platform';
import { EventLedger } from './event-ledger.js';
import { SqlEventLedger } from './event-ledgers/sql.js';
import { LiveEvents } from './live-events.js';
import { ChannelLiveEvents } from './live-events/channels.js';

/** The ledger of sessions and events, and their live channel. Needs the platform's providers, globally. */
@Module({
  providers: [
    { provide: EventLedger, useFactory: (database: Database) => new SqlEventLedger(database), inject: [Database] },
    {
      provide: LiveEvents,
      useFactory: (channels: Channels, keys: KeyNames) => new ChannelLiveEvents(channels, keys),
      inject: [Channels, KeyNames],
    },
  ],
  exports: [EventLedger, LiveEvents],
})
export class EventLedgerModule {}
