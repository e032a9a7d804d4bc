import type { Id } from '#protocol';

/** What an agent is to do with a message; the message's content as JSON. */
export type Work = { id: string; edit?: number } & (
  { do: 'answer' | 'act' | 'fail' | 'die' } | { do: 'spawn'; children: readonly Child[]; awaits: boolean }
);

export interface Child {
  sessionId: Id;
  work: Work;
}

/** Reports and whatever else is no work are answered. */
export function parseWork(content: unknown): Work {
  if (typeof content !== 'string' || !content.startsWith('{')) return { id: '', do: 'answer' };
  return JSON.parse(content) as Work;
}

/** The call by which a turn spawns its nth child. */
export function spawnCallId(turnId: Id, nth: number): Id {
  return `${turnId}-s${nth}`;
}
