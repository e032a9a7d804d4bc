import { isTerminal, type TurnState } from '#protocol';

/** What can happen to one turn, each as the system does it in one step. */
export const OPERATIONS = ['enqueue', 'stop', 'start', 'finish', 'retry', 'crash', 'flush'] as const;
export type Operation = (typeof OPERATIONS)[number];

/** One turn as it must stand, and what bears on its next step. */
export interface Standing {
  state: TurnState | 'unborn';
  /** 0: unborn. */
  generation: number;
  isAccepted: boolean;
  isRefused: boolean;
  /** The generations that stand in the session's lists, in the order of the line. */
  line: readonly number[];
  /** Whether the partition has been filled since Redis last lost it. */
  isIntact: boolean;
  owner: 'nobody' | 'asleep' | 'at work';
  /** The ledger's events of the turn: type, generation, and for its end the gate that ended it. */
  events: readonly string[];
  /** What the caller of the last operation was answered; empty where it has no caller. */
  answer: string;
}

export const UNBORN: Standing = {
  ...{ state: 'unborn', generation: 0, isAccepted: false, isRefused: false },
  ...{ line: [], isIntact: true, owner: 'nobody', events: [], answer: '' },
};

/** How the turn stands after the operation: all that the runtime promises about one turn, as a table. */
export function after(turn: Standing, operation: Operation): Standing {
  return { ...turn, answer: '', ...RULES[operation](turn) };
}

/** How it stands when everybody has done what is left to do. */
export function settled(turn: Standing): Standing {
  const ended = after(turn, 'finish');
  // Nobody is left who owns the session, all lists are what the ledger says, and the next owner works.
  const found = { ...ended, owner: 'nobody', isIntact: false } as const;
  return { ...after(after(found, 'start'), 'finish'), line: [] };
}

const RULES: Record<Operation, (turn: Standing) => Partial<Standing>> = {
  enqueue(turn) {
    if (turn.state === 'unborn') {
      const accepted = inLine({ ...turn, generation: 1 }, 'message.accepted');
      return { ...accepted, isAccepted: true, answer: '202 generation 1' };
    }
    // Sent again: the answer of the first time, and a live turn stands in line once.
    if (turn.isAccepted) return { line: isLive(turn) ? withOwn(turn) : turn.line, answer: '202 generation 1' };
    const events = turn.isRefused ? turn.events : [...turn.events, 'message.refused 1'];
    return { events, isRefused: true, answer: 'turn_stopped' };
  },

  stop(turn) {
    switch (turn.state) {
      case 'unborn':
        return stopped({ ...turn, generation: 1 });
      case 'queued':
        return stopped(turn);
      case 'running':
        return {
          state: 'stop_requested',
          ...told(turn, 'turn.stop_requested'),
          answer: answered(turn, 'stop_requested'),
        };
      default:
        return { answer: `already ${answered(turn, turn.state)}` };
    }
  },

  start(turn) {
    if (turn.owner === 'at work') return {};
    const isNew = turn.owner === 'nobody';
    // What was lost, whoever becomes owner fills first: the ledger's live turn in front, whatever else stands behind.
    const line = isNew && !turn.isIntact && isLive(turn) ? [turn.generation, ...others(turn)] : turn.line;
    const isIntact = isNew || turn.isIntact;
    const at = isLive(turn) ? line.indexOf(turn.generation) : -1;
    if (at < 0) return { line: [], isIntact, owner: 'asleep' };
    if (turn.state === 'stop_requested') {
      return { state: 'stopped', ...told(turn, 'turn.stopped', 'start'), line: [], isIntact, owner: 'asleep' };
    }
    const type = turn.state === 'queued' ? 'turn.started' : 'turn.resumed';
    return { state: 'running', ...told(turn, type), line: line.slice(at), isIntact, owner: 'at work' };
  },

  finish(turn) {
    if (turn.owner !== 'at work') return {};
    const done = { line: [], owner: 'asleep' } as const;
    if (turn.state === 'running') return { ...done, state: 'completed', ...told(turn, 'turn.completed') };
    return { ...done, state: 'stopped', ...told(turn, 'turn.stopped', 'running') };
  },

  retry(turn) {
    if (turn.state === 'unborn') return { answer: 'not_found' };
    if (!isTerminal(turn.state)) return { answer: 'turn_ended' };
    if (!turn.isAccepted) return { answer: 'turn_stopped' };
    const next = { ...turn, generation: turn.generation + 1 };
    return { ...inLine(next, 'turn.queued'), answer: `202 generation ${next.generation}` };
  },

  crash: () => ({ owner: 'nobody' }),

  flush: () => ({ line: [], isIntact: false }),
};

function inLine(turn: Standing, event: string): Partial<Standing> {
  return { state: 'queued', generation: turn.generation, line: withOwn(turn), ...told(turn, event) };
}

function stopped(turn: Standing): Partial<Standing> {
  const { generation } = turn;
  return { state: 'stopped', generation, ...told(turn, 'turn.stopped', 'stop'), answer: answered(turn, 'stopped') };
}

function told(turn: Standing, event: string, gate?: string): Pick<Standing, 'events'> {
  return { events: [...turn.events, [event, turn.generation, gate].filter((word) => word !== undefined).join(' ')] };
}

function answered({ generation }: Standing, state: string): string {
  return `${state} generation ${generation}`;
}

function isLive({ state }: Standing): boolean {
  return state !== 'unborn' && !isTerminal(state);
}

function others({ line, generation }: Standing): readonly number[] {
  return line.filter((other) => other !== generation);
}

function withOwn({ line, generation }: Standing): readonly number[] {
  return line.includes(generation) ? line : [...line, generation];
}
