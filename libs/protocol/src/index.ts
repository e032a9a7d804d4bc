export { ID_PATTERN, type Id, isId, parseSessionName, type SessionKey, sessionName } from './ids.js';
export { PARTITIONS, partitionOf } from './partition.js';
export { KeyNames } from './keys.js';
export { decodeEnvelope, encodeEnvelope, type Ref, sameRef } from './envelope.js';
export { type Owner, ownerToken, parseOwnerToken, type PodName, podName } from './owner.js';
export {
  afterMove,
  isTerminal,
  type LiveState,
  type TerminalState,
  TURN_STATES,
  type TurnMove,
  turnRank,
  type TurnState,
} from './turn-state.js';
export type {
  Accepted,
  ChildState,
  Content,
  Kind,
  Meta,
  Mode,
  ModelMessage,
  Ownership,
  Part,
  Session,
  SRef,
  StopAnswer,
  ToolCall,
  Turn,
  TurnError,
  Usage,
} from './shapes.js';
export { MODES } from './shapes.js';
export type { Event, EventData, EventDraft, EventType, LiveDelta, Run, Stop, TextPiece } from './events.js';
export type { Room } from './room.js';
export type { RunOutcome } from './run-outcome.js';
export {
  ButlerError,
  ERROR_STATUS,
  type ErrorCode,
  type ErrorFacts,
  type FieldError,
  StaleOwnerError,
} from './errors.js';
export { decodeNotice, encodeNotice, type PodNotice } from './pod-notice.js';
