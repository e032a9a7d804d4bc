import { createHash } from 'node:crypto';
import type { Id, Ref } from '#protocol';

/** Hex digits of a hash that make an id. */
const DIGITS = 40;

/** The turnId of the child that this call of a turn spawns: the same call, replayed, is the same child. */
export function childTurnId({ turnId, generation }: Ref, callId: Id): Id {
  const hash = createHash('sha256').update(`${turnId}/${generation}/${callId}`).digest('hex');
  return `c~${hash.slice(0, DIGITS)}`;
}

/** The turnId of the report that a child sends its parent: one per child, so that it reaches the parent once. */
export function reportTurnId(child: Id): Id {
  return `r~${child.slice(2)}`;
}

const RESERVED = /^[cr]~[0-9a-f]{40}$/;

/** Whether only the runtime itself may post under this turnId. */
export function isReservedTurnId(turnId: Id): boolean {
  return RESERVED.test(turnId);
}
