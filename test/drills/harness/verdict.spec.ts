import { describe, expect, it } from '@jest/globals';
import type { Event, EventType, Id } from '#protocol';
import type { ScriptCall } from '../../e2e/harness/script-calls.js';
import type { AcceptedPost, AnsweredStop } from './load.js';
import type { Reading } from './reading.js';
import { takeovers } from './takeovers.js';
import { judge, longestSilenceMs } from './verdict.js';

/** `at` in ms, type, turn and data of each event of one session. */
type Line = [at: number, type: EventType, turnId: Id | null, data?: object];

const run = (attempt: number, epoch: number): object => ({ attempt, podId: 'a', epoch });
const owner = (podId: Id, epoch: number): object => ({ podId, boot: `boot-${podId}`, epoch });
const events = (lines: readonly Line[]): Event[] =>
  lines.map(([at, type, turnId, data = {}], index) => {
    const generation = turnId === null ? null : 1;
    return { seq: index + 1, type, turnId, generation, at: new Date(at).toISOString(), data } as Event;
  });

const WELL: Line[] = [
  [0, 'message.accepted', 't1'],
  [1, 'owner.changed', null, owner('a', 1)],
  [1, 'turn.started', 't1', run(1, 1)],
  [2, 'model.message', 't1', { step: 'model:1', attempt: 1 }],
  [3, 'turn.completed', 't1'],
];

const post = (turnId: Id, seq: number): AcceptedPost => ({ session: 's', turnId, content: 'say', seq, tookMs: 1 });
const step = (attempt: number, startNs: bigint): ScriptCall => ({
  ...{ kind: 'model', pod: 'a', boot: 'boot-a', session: 's', turn: 't1', generation: 1, attempt, epoch: 1 },
  ...{ key: 'model:1', startNs, endNs: startNs + 1n },
});

interface Left {
  lines?: Line[];
  states?: Record<Id, string>;
  calls?: ScriptCall[];
  accepted?: AcceptedPost[];
  stops?: AnsweredStop[];
}

function readingOf({ lines = WELL, states = { t1: 'completed' }, calls = [step(1, 1n)] }: Left): Reading {
  const turns = Object.entries(states).map(([turnId, state]) => [turnId, { turnId, session: 's', state }] as const);
  return { sessions: new Map([['s', events(lines)]]), turns: new Map(turns) as Reading['turns'], calls };
}

/** What a verdict calls bad. */
function bad(left: Left): string[] {
  const { accepted = [post('t1', 1)], stops = [] } = left;
  const users = { accepted, stops, failures: { posts: 0, stops: 0 }, refused: [], retried: new Map() };
  const sights = { longestGapMs: 0, longestReconnectMs: 0, reconnects: 0 };
  return judge(users, sights, [], readingOf(left)).flatMap(({ what, verdict }) => (verdict === 'bad' ? [what] : []));
}

describe('a verdict', () => {
  it('is good when everything is', () => expect(bad({})).toEqual([]));

  it.each([
    ['has no row', {}],
    ['is not at its end', { t1: 'running' }],
  ])('calls a message lost that was accepted and %s', (_, states) => expect(bad({ states })).toEqual(['lost']));

  it('finds a step that ran again after it was recorded', () =>
    expect(bad({ calls: [step(1, 1n), step(2, 5n)] })).toEqual(['steps doubled']));

  it('finds messages that stand in another order than that in which they were accepted', () =>
    expect(bad({ accepted: [post('t1', 1), post('t0', 0)], states: { t1: 'completed', t0: 'completed' } })).toEqual([
      'reordered',
    ]));

  it('finds turns that start in another order than that of their messages', () => {
    const [first, changed] = WELL as [Line, Line];
    const lines: Line[] = [first, [0, 'message.accepted', 't2'], changed, [1, 'turn.started', 't2', run(1, 1)]];
    expect(bad({ lines })).toEqual(['reordered']);
  });

  it.each([
    ['stopped', 'stopped'],
    ['stop_requested', 'completed'],
  ] as const)('finds a stop that was answered %s and not honoured', (state, is) =>
    expect(bad({ stops: [{ turnId: 't1', state, already: false }], states: { t1: is } })).toEqual([
      'stops not honoured',
    ]),
  );
});

it('silence is counted from the last progress, whatever users say meanwhile, and not while there is no work', () => {
  const lines: Line[] = [
    ...WELL,
    [9_000, 'message.accepted', 't2'],
    [9_100, 'turn.started', 't2', run(1, 1)],
    [9_500, 'message.accepted', 't3'],
    [9_900, 'turn.completed', 't2'],
  ];
  expect(longestSilenceMs(readingOf({ lines }))).toBe(800);
});

describe('a takeover', () => {
  const before: Line[] = [
    [0, 'message.accepted', 't1'],
    [0, 'message.accepted', 't2'],
    [1, 'owner.changed', null, owner('a', 1)],
    [1, 'turn.started', 't1', run(1, 1)],
    [2, 'turn.stopped', 't2', { gate: 'stop', by: 'ann' }],
  ];
  const of = (...lines: Line[]): (number | null)[] =>
    takeovers(readingOf({ lines: [...before, ...lines] }), { pod: 'a', atMs: 10 }).map(({ tookMs }) => tookMs);

  it('is told by the next owner', () => {
    expect(of([360, 'owner.changed', null, owner('b', 2)], [360, 'turn.resumed', 't1', run(2, 2)])).toEqual([350]);
  });
  it('is missing when nobody came', () => expect(of([50, 'message.accepted', 't3'])).toEqual([null]));
  it('was not needed when the turn ended there after all', () => expect(of([11, 'turn.completed', 't1'])).toEqual([]));
});
