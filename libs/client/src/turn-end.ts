import type { Event, Id, Ref } from '#protocol';

const ENDS = ['turn.completed', 'turn.failed', 'turn.stopped', 'turn.absorbed'] as const;

/** The event with which a turn ends. `turn.absorbed`: it has joined another turn, which goes on. */
export type TurnEnd = Extract<Event, { type: (typeof ENDS)[number] }>;

interface OfTurn {
  type: string;
  turnId: Id | null;
  generation: number | null;
}

/** Whether this generation of this turn ends with what a watch gives. */
export function endsTurn(frame: OfTurn, { turnId, generation }: Ref): frame is TurnEnd {
  return ENDS.some((type) => type === frame.type) && frame.turnId === turnId && frame.generation === generation;
}
