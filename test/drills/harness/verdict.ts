import type { Event, Id } from '#protocol';
import { repetitions } from '../../crash/harness/repeated-steps.js';
import { sessionFaults } from '../../crash/harness/session-faults.js';
import type { AcceptedPost, AnsweredStop, Load } from './load.js';
import { type Reading, timeOf } from './reading.js';
import { none, type Row, some, within } from './row.js';
import type { Watchers } from './watchers.js';

type Users = Pick<Load, 'accepted' | 'stops' | 'failures' | 'refused' | 'retried'>;
type Sights = Pick<Watchers, 'longestGapMs' | 'longestReconnectMs' | 'reconnects'>;

const ENDED = new Set(['completed', 'stopped', 'failed']);
const ENDS = new Set<Event['type']>(['turn.completed', 'turn.failed', 'turn.stopped']);
const OUT_OF_ORDER = /out of the order/;

/** What every drill promises, read from the ledger, the calls that really ran, and what users and watchers saw. */
export function judge(load: Users, watchers: Sights, missed: readonly string[], reading: Reading): Row[] {
  const { accepted, stops, failures } = load;
  const states = (state: string): string[] =>
    [...reading.turns.values()].flatMap((turn) => (turn.state === state ? [turn.turnId] : []));
  const faults = [...reading.sessions].flatMap(([session, events]) =>
    sessionFaults(events).map((fault) => `${session}: ${fault}`),
  );
  const { doubled, late } = repeated(reading);
  const took = accepted.map(({ tookMs }) => tookMs);
  return [
    some('messages accepted', accepted.length),
    { what: 'turns completed', value: states('completed').length },
    { what: 'turns stopped', value: states('stopped').length },
    none('turns failed', states('failed')),
    none('lost', lost(accepted, reading)),
    none('steps doubled', doubled),
    { what: 'steps repeated by a pod that stood still', value: late.length, ...(late.length > 0 && atAll(late)) },
    none('reordered', [...faults.filter((fault) => OUT_OF_ORDER.test(fault)), ...reordered(accepted)]),
    none(
      'other faults of sessions',
      faults.filter((fault) => !OUT_OF_ORDER.test(fault)),
    ),
    none('stops not honoured', notHonoured(stops, reading)),
    none('events that a watcher missed', missed),
    none('messages that nobody would take', load.refused),
    { what: 'posts that failed, and were said again by the user', value: failures.posts },
    { what: 'stops that failed', value: failures.stops },
    { what: 'attempts sent again by the client', value: told(load.retried) },
    within('longest wait for a 202', Math.max(...took), {}),
    within('longest gap that a watcher saw', watchers.longestGapMs, {}),
    within(`longest of ${watchers.reconnects} reconnects of watchers`, watchers.longestReconnectMs, {}),
  ];
}

/** Answered 202, and not in the ledger, or not at its end. */
function lost(accepted: readonly AcceptedPost[], { turns }: Reading): string[] {
  return accepted.flatMap(({ turnId, session }) => {
    const turn = turns.get(turnId);
    if (!turn || turn.session !== session) return [`${turnId} of ${session} has no row`];
    return ENDED.has(turn.state) ? [] : [`${turnId} of ${session} is ${turn.state}`];
  });
}

/** The order in which a user's messages were accepted, one after the other, is not the order in which they stand. */
function reordered(accepted: readonly AcceptedPost[]): string[] {
  return [...Map.groupBy(accepted, ({ session }) => session).values()].flatMap((posts) =>
    posts.flatMap((post, at) =>
      at > 0 && post.seq <= posts[at - 1]!.seq ? [`${post.turnId} stands before ${posts[at - 1]!.turnId}`] : [],
    ),
  );
}

function repeated({ sessions, calls }: Reading): { doubled: string[]; late: string[] } {
  const found = { doubled: [] as string[], late: [] as string[] };
  const callsOf = Map.groupBy(calls, ({ session }) => session);
  for (const [session, events] of sessions) {
    for (const { call, recordedBy, isLate } of repetitions(events, callsOf.get(session) ?? [])) {
      const line = `${call.turn} ${call.key}: attempt ${call.attempt} at ${call.pod}, recorded by ${recordedBy}`;
      found[isLate ? 'late' : 'doubled'].push(line);
    }
  }
  return found;
}

/** `stopped`: nothing of it begins. `stop_requested`: it ends as stopped. What had ended stays as it was. */
function notHonoured(stops: readonly AnsweredStop[], { turns, sessions, calls }: Reading): string[] {
  const started = new Set<Id | null>();
  for (const events of sessions.values())
    for (const { type, turnId } of events) if (type === 'turn.started') started.add(turnId);
  const ran = new Set<Id>(calls.map(({ turn }) => turn));
  return stops.flatMap(({ turnId, state, already }) => {
    const is = turns.get(turnId)?.state;
    const wanted = state === 'stop_requested' ? 'stopped' : state;
    const begun = !already && state === 'stopped' && (started.has(turnId) || ran.has(turnId));
    return is === wanted && !begun ? [] : [`${turnId} was answered ${state}, is ${is}${begun ? ', and began' : ''}`];
  });
}

/** The longest time in which a session had work and nobody got on with it. What users say meanwhile is no progress. */
export function longestSilenceMs({ sessions }: Reading): number {
  return Math.max(0, ...[...sessions.values()].map(silenceMs));
}

function silenceMs(events: readonly Event[]): number {
  const live = new Set<Id | null>();
  let longest = 0;
  let sinceMs = 0;
  for (const event of events) {
    const { type, turnId } = event;
    const isSaid = type === 'message.accepted' || type === 'turn.stop_requested';
    if (live.size > 0 && !isSaid) longest = Math.max(longest, timeOf(event) - sinceMs);
    if (live.size === 0 || !isSaid) sinceMs = timeOf(event);
    if (type === 'message.accepted') live.add(turnId);
    else if (ENDS.has(type)) live.delete(turnId);
  }
  return longest;
}

/** Allowed (I4), and worth a look. */
const atAll = (cases: readonly string[]): Partial<Row> => ({ verdict: 'warn', cases });

function told(retried: ReadonlyMap<string, number>): string {
  const all = [...retried].map(([why, times]) => `${times} × ${why}`).join(', ');
  return all || '0';
}
