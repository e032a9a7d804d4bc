import type { Ref } from './envelope.js';
import type { TerminalState } from './turn-state.js';

/** What became of one envelope that an actor handed to the turn runner. */
export type RunOutcome =
  /** The turn has ended; its envelope can go. */
  | { kind: 'ended'; state: TerminalState }
  /** The envelope is of an older generation, another session, or of a turn that does not exist: it can go. */
  | { kind: 'dropped' }
  /** A live turn with a lower queueSeq comes first; `live` is the session's order as the ledger has it. */
  | { kind: 'behind'; live: Ref[] }
  /** The turn stands where it was and goes on under the next owner. */
  | { kind: 'yielded' }
  /** The claim was refused: another owner has the session, or may have. */
  | { kind: 'claim_refused' }
  /** A fault in the program; nothing is decided about the turn, and it is tried again a little later. */
  | { kind: 'faulty' }
  /** A write was refused or the lease is not trusted any more. */
  | { kind: 'stale' };
