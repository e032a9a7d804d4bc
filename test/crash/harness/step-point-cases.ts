import type { SessionKey } from '#protocol';
import type { Facts } from '../../e2e/harness/pod-orders.js';

/** Where the next owner stands when the frozen pod wakes: in the middle of a turn, or done with all. */
type Next = 'at work' | 'done';

/** A session whose owner is held at a step point and then stopped together with its process. */
export interface StepPointCase {
  point: string;
  next: Next;
  session: SessionKey;
  turnId: string;
  where: Facts;
  /** What goes out once after waking, because it was checked before: all that I4 allows. */
  goesOut?: 'model:2' | 'tool:model-2-1';
  /** Where the ledger's refusal is seen. */
  refusedAt?: string;
}

/** The whole path of a turn: steps of both kinds, and a tool that leaves a line with its call id and epoch. */
export function work(file: string): string {
  return `say one\ntool append ${JSON.stringify({ file, line: 'x', repeatable: true })}\nsay two`;
}

const NEXT: Next[] = ['at work', 'done'];

export function stepPointCases(account: string): StepPointCase[] {
  return NEXT.flatMap((next) => [
    ...['actor.acquiring', 'actor.taking', 'actor.taken', 'actor.served', 'actor.leaving', 'actor.releasing'].map(
      (point) => ofActor(account, point, next),
    ),
    ...['gate3.before', 'gate3.committed', 'finish.before', 'finish.committed', 'tool.before'].map((point) =>
      ofTurn(account, point, next),
    ),
    ofTurn(account, 'step.before', next, { step: 'model:2' }),
    { ...ofTurn(account, 'step.checked', next, { step: 'model:2' }), goesOut: 'model:2' },
    { ...ofTurn(account, 'tool.checked', next), goesOut: 'tool:model-2-1' },
    ofTurn(account, 'append.before', next, { types: ['model.message'] }),
    { ...ofTurn(account, 'append.checked', next, { types: ['tool.result'] }), refusedAt: 'append.refused' },
    // Once the turn has ended elsewhere there is nothing left to refuse: ending again changes nothing.
    { ...ofTurn(account, 'finish.checked', next), ...(next === 'at work' && { refusedAt: 'finish.refused' }) },
  ]);
}

function ofTurn(account: string, point: string, next: Next, further: Facts = {}): StepPointCase {
  const turnId = `${point}-${next.replace(' ', '-')}`;
  return { point, next, turnId, session: { account, sessionId: turnId }, where: { turnId, ...further } };
}

function ofActor(account: string, point: string, next: Next): StepPointCase {
  const made = ofTurn(account, point, next);
  return { ...made, where: { session: made.session } };
}
