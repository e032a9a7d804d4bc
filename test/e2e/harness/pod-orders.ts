/** What a test tells a pod process over IPC, and what it hears back. */
export type Facts = Readonly<Record<string, unknown>>;

export interface PointOrder {
  id: number;
  /** `hold` lets nobody past the point until it is released; `die` ends the process there as kill -9 does. */
  act: 'hold' | 'watch' | 'die';
  point: string;
  /** Only where the point's facts have these values. */
  where?: Facts;
  /** Which time that it is reached counts; 1 is the next. */
  nth?: number;
}

export type Order =
  | PointOrder
  /** Ends the hold with this id and lets go on whoever stands there. */
  | { id: number; act: 'release'; hold: number }
  | { id: number; act: 'look' }
  | { id: number; act: 'set'; actorIdleMs: number };

/** What a pod process holds in memory. */
export interface PodState {
  actors: { active: number; idle: number };
  /** How many of each kind of what keeps the process going: timers, sockets, requests. */
  resources: Record<string, number>;
}

export type Report =
  | { kind: 'listening'; url: string }
  | { kind: 'obeyed'; id: number }
  /** Somebody has come to a point that is held, or watched. */
  | { kind: 'reached'; id: number; facts: Facts }
  | { kind: 'state'; id: number; state: PodState };
