export {
  type Append,
  type Beside,
  EventLedger,
  type SessionHead,
  type SessionRow,
  type Writer,
} from './event-ledger.js';
export { EventLedgerModule } from './event-ledger.module.js';
export { SqlEventLedger } from './event-ledgers/sql.js';
export { EventTooLargeError } from './event-too-large.error.js';
export { LiveEvents, type LiveFrame } from './live-events.js';
export { ChannelLiveEvents } from './live-events/channels.js';
export { EVENT_LEDGER_SCHEMA } from './schema.js';
