export { ButlerClient, type ClientOptions, type WaitOptions } from './butler-client.js';
export { ApiError, type Problem } from './api.error.js';
export { NetworkError } from './network.error.js';
export type { RetryPolicy } from './retry.policy.js';
export type { SessionsClient } from './sessions.client.js';
export type { ClientClock, ClientRandomness } from './surroundings.js';
export type { Frame, WatchOptions, WatchState } from './watch.js';
export { endsTurn, type TurnEnd } from './turn-end.js';
export type {
  Acceptance,
  CallOptions,
  Events,
  EventsQuery,
  NewMessage,
  NewSession,
  PageQuery,
  SessionChange,
  Sessions,
  StopOptions,
  Turns,
  TurnsQuery,
} from './requests.js';
