import { TURN_STATES, afterMove, type TurnMove } from '#protocol';
import { FAULT_KINDS } from './plan.js';

const MOVES: readonly TurnMove[] = ['start', 'stop', 'complete', 'fail', 'absorb'];

/** A turn that is to stop is not asked again: gate 1 answers `already`. */
const NEVER_MADE = 'move stop: stop_requested to stop_requested';

const TRANSITIONS = MOVES.flatMap((move) =>
  TURN_STATES.flatMap((state) => {
    const after = afterMove(state, move);
    return after ? [`move ${move}: ${state} to ${after}`] : [];
  }),
).filter((name) => name !== NEVER_MADE);

const REPLIES = [
  ...['acquired', 'held', 'not_intact'].map((reply) => `locks.acquire: ${reply}`),
  ...['true', 'false'].flatMap((reply) => [`locks.renew: ${reply}`, `locks.bury: ${reply}`]),
  ...['idle: released', 'idle: work', 'leave: released', 'leave: not_owner'].map((reply) => `locks.release ${reply}`),
  ...['back_off: released', 'back_off: not_owner'].map((reply) => `locks.release ${reply}`),
  ...['ended', 'queued, owned', 'queued, no owner'].map((reply) => `queue.enqueue: ${reply}`),
  ...['taken', 'empty'].flatMap((reply) => [`queue.take: ${reply}`, `queue.complete: ${reply}`]),
  ...['a filler: restored', 'a filler: not_allowed', 'an owner: restored'].map((reply) => `queue.restore by ${reply}`),
  ...['some', 'none'].flatMap((reply) => [
    `marks.beginFilling: ${reply}`,
    `marks.finishFilling: ${reply}`,
    `marks.claimReconciling: ${reply}`,
  ]),
  ...['true', 'false'].flatMap((reply) => [`records.advance: ${reply}`, `queue.present: ${reply}`]),
].map((reply) => `reply ${reply}`);

const BRANCHES = [
  // Gate 1.
  ...['insertTombstone', 'stopAhead'].map((branch) => `move ${branch}`),
  ...['stopped', 'stop_requested', 'stopped, already', 'completed, already', 'failed, already'].map(
    (answer) => `answer stop: ${answer}`,
  ),
  ...['stale_generation', 'turn_mismatch'].map((code) => `answer stop: ${code}`),
  // Gate 2.
  ...['done', 'replayed', 'turn_stopped', 'turn_mismatch', 'session_busy', 'queue_full'].map(
    (answer) => `answer post: ${answer}`,
  ),
  ...['done', 'not_found', 'turn_ended', 'turn_mismatch'].flatMap((answer) => [
    `answer edit: ${answer}`,
    `answer retry: ${answer}`,
  ]),
  ...['stale_generation', 'turn_stopped'].map((code) => `answer retry: ${code}`),
  // Gate 3.
  ...['started', 'behind', 'ended', 'dropped'].map((answer) => `passed gate3.committed: ${answer}`),
  ...['ended', 'dropped', 'behind', 'yielded', 'stale', 'claim_refused'].map((kind) => `passed actor.served: ${kind}`),
  ...['actor.burying', 'append.refused', 'reconciler.requeueing', 'recovery.filled', 'spawn.committed'].map(
    (point) => `passed ${point}`,
  ),
];

/** What a run of schedules must have seen: every transition, script reply, gate branch and kind of fault. */
export const EXPECTED: readonly string[] = [
  ...TRANSITIONS,
  ...REPLIES,
  ...BRANCHES,
  ...[...FAULT_KINDS, 'killed by a turn'].map((kind) => `fault ${kind}`),
];
