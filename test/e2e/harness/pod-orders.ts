/** What a test tells a pod process over IPC, and what it hears back. */
export type Facts = Readonly<Record<string, unknown>>;

export interface Order {
  id: number;
  /** `hold` lets nobody past the point until `release`; `die` ends the process there as kill -9 does. */
  act: 'hold' | 'release' | 'die';
  point: string;
  /** Only where the point's facts have these values. */
  where?: Facts;
  /** Which time that it is reached counts; 1 is the next. */
  nth?: number;
}

export type Report =
  { kind: 'listening'; url: string } | { kind: 'obeyed'; id: number } | { kind: 'holding'; id: number; facts: Facts };
