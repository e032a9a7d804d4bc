export { EventStreamModule } from './event-stream.module.js';
export { SessionStreams } from './session-streams.js';
export type { SessionWatch } from './session-watch.js';
export type { EndReason, StreamFrame } from './stream-frame.js';
