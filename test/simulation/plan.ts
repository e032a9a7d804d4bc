import type { Id, Mode } from '#protocol';
import { SeededRandom } from './seeded-random.js';
import type { Work } from './work.js';

/** What can befall the processes and the servers, each at one moment. */
export const FAULT_KINDS = [
  // Of one pod.
  'crash', // gone without a word; another process takes its POD_ID after `ms`
  'rollout', // told to leave; another pod takes its place when it has left
  'pause', // stands still for `ms`, less than a lease
  'stall', // stands still for `ms`, longer than a lease
  'clock_jump', // its wall clock jumps by `ms`, either way
  'subscription_lost', // its subscription breaks; it notices, and is heard again within `ms`
  // Of one pod's next call to Redis.
  'redis_request_lost',
  'redis_reply_lost',
  'redis_call_resent', // its reply is lost, and it is sent again
  'redis_call_late', // its caller is told that it failed; it happens up to `ms` later
  'redis_flushed_behind_acquire', // empty as soon as it has given the pod its next lease
  // Of one pod's next transaction.
  'stall_before_commit', // stands still for `ms`, longer than a lease, when it has sent one of its next
  'ledger_unreached',
  'commit_unanswered',
  'commit_repeated', // its COMMIT's answer is lost, and it is repeated
  'transaction_repeated', // rolled back, as for a deadlock, and repeated
  // Of notices to one pod.
  'notices_lost', // all for `ms`
  'notice_doubled', // the next one
  'notice_late', // the next one comes `ms` later than others
  // Of a server.
  'calls_delayed', // every call takes up to `ms` longer, for a while
  'redis_away', // for `ms`
  'redis_flushed',
  'redis_restarted', // empty; every connection breaks
  'redis_failover', // its last writes of `ms` are lost; every connection breaks
  'ledger_away', // for `ms`
] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

export interface Fault {
  kind: FaultKind;
  atMs: number;
  /** Which of the pods, where it is one's. */
  pod: number;
  ms: number;
}

/** A message that a client will post, by its place in the plan. */
export interface PlannedMessage {
  turnId: Id;
  account: Id;
  sessionId: Id;
  mode: Mode;
  work: Work;
}

/** What a client asks. */
export interface Act {
  kind: 'post' | 'edit' | 'stop' | 'retry';
  atMs: number;
  pod: number;
  message: number;
  /** Of a message's child, instead of itself. */
  child: number | null;
  by: 'ann' | 'eve' | 'admin';
  /** Which generation is named, counted from the present one; null: none. */
  generation: number | null;
  /** Nobody asks again when no answer comes. */
  vanishes: boolean;
}

/** How long things take. */
export interface Pace {
  name: 'near' | 'far' | 'ragged';
  /** Of one way to a server, ms. */
  travelMs: readonly [number, number];
  /** Of a step of an agent, ms. */
  stepMs: readonly [number, number];
}

/** Everything that is to happen in one schedule, made from its seed. What is left out of it leaves the rest as it is. */
export interface Plan {
  seed: number;
  theme: Theme;
  pods: number;
  pace: Pace;
  accounts: readonly Id[];
  sessionIds: readonly Id[];
  messages: PlannedMessage[];
  acts: Act[];
  faults: Fault[];
  /** Sessions that somebody watches, by place. */
  watched: readonly number[];
  actorMaxActive: number;
  queueMaxPending: number;
  presenceCheckMs: number;
}

/**
 * `calm`: a healthy system first. `storm`: many faults. `family`: children. `poison`: turns that end their pod. `full`:
 * little room. `plain`: nothing that the reconciler has to mend, and no reconciler.
 */
const THEMES = ['calm', 'calm', 'storm', 'storm', 'family', 'family', 'poison', 'full', 'plain'] as const;
type Theme = (typeof THEMES)[number];

const PACES: readonly Pace[] = [
  { name: 'near', travelMs: [0.1, 2], stepMs: [1, 1_000] },
  { name: 'near', travelMs: [0.1, 2], stepMs: [1, 10] },
  { name: 'far', travelMs: [1, 100], stepMs: [1, 5_000] },
  { name: 'ragged', travelMs: [0.1, 1_500], stepMs: [1, 10_000] },
];
const MODES: readonly Mode[] = ['enqueue', 'enqueue', 'enqueue', 'steer', 'steer', 'interrupt', 'reject'];
const ACTS: readonly Act['kind'][] = ['edit', 'edit', 'stop', 'stop', 'stop', 'retry', 'retry'];
const MESSAGES = { min: 10, more: 5 };
/** From when on a calm system is not healthy any more. */
const CALM_MS = 20_000;
const PAST_LEASE_MS = [31_000, 70_000] as const;

const FAULT_MS: Partial<Record<FaultKind, readonly [number, number]>> = {
  crash: [100, 8_000],
  pause: [200, 25_000],
  stall: PAST_LEASE_MS,
  stall_before_commit: PAST_LEASE_MS,
  clock_jump: [-3_600_000, 3_600_000],
  subscription_lost: [1_000, 8_000],
  redis_call_late: [1, 20_000],
  notices_lost: [500, 12_000],
  notice_late: [500, 12_000],
  calls_delayed: [20, 1_400],
  redis_away: [200, 45_000],
  redis_failover: [50, 5_000],
  ledger_away: [200, 45_000],
};
/** Nothing is lost by these, only late. */
const PLAIN: readonly FaultKind[] = [
  ...(['stall', 'stall', 'stall_before_commit', 'stall_before_commit', 'pause'] as const),
  ...(['clock_jump', 'notice_doubled', 'transaction_repeated'] as const),
];
const COMMON: readonly FaultKind[] = [
  ...(['crash', 'crash', 'stall', 'redis_flushed', 'redis_restarted', 'rollout'] as const),
  ...(['subscription_lost', 'subscription_lost', 'stall_before_commit', 'redis_flushed_behind_acquire'] as const),
];

export function planOf(seed: number): Plan {
  const random = new SeededRandom(seed);
  const theme = random.pick(THEMES);
  const pace = theme === 'poison' ? PACES[0]! : random.pick(PACES);
  const accounts = [`a${seed}`, `b${seed}`];
  const sessionIds = ['s0', 's1', 's2'];
  const pods = 2 + random.below(2);
  const spanMs = pace.name === 'near' ? 30_000 : 60_000;
  const count = MESSAGES.min + random.below(MESSAGES.more);
  const messages = Array.from({ length: count }, (_, at) => {
    // Both accounts use the same ids.
    const account = accounts[random.chance(0.15) ? 1 : 0]!;
    const turnId = `m${at}`;
    const mode = random.pick(MODES);
    return { turnId, account, sessionId: random.pick(sessionIds), mode, work: workOf(random, theme, at, 0) };
  });
  const beginsMs = theme === 'calm' ? CALM_MS : 0;
  return {
    ...{ seed, theme, pods, pace, accounts, sessionIds, messages },
    acts: actsOf(random, messages, pods, spanMs),
    faults: faultsOf(random, theme, pods, [beginsMs, Math.max(spanMs, beginsMs + 15_000)]),
    watched: sessionIds.map((_, at) => at).filter(() => random.chance(0.5)),
    actorMaxActive: theme === 'full' ? 1 + random.below(2) : 200,
    queueMaxPending: theme === 'full' ? 2 : 100,
    presenceCheckMs: random.chance(0.7) ? 500 : 0,
  };
}

function actsOf(random: SeededRandom, messages: readonly PlannedMessage[], pods: number, spanMs: number): Act[] {
  const act = (kind: Act['kind'], message: number, atMs: number): Act => ({
    ...{ kind, message, atMs, pod: random.below(pods) },
    child: kind === 'stop' && random.chance(0.3) ? random.below(2) : null,
    by: kind === 'post' || random.chance(0.85) ? 'ann' : random.pick(['eve', 'admin'] as const),
    generation: generationOf(random, kind),
    vanishes: random.chance(0.1),
  });
  const acts: Act[] = [];
  for (const message of messages.keys()) {
    // Some come in a burst, some when the sessions have fallen asleep.
    const atMs = random.chance(0.5) ? random.fraction() * 2_000 : random.fraction() * spanMs;
    acts.push(act('post', message, atMs));
    if (random.chance(0.2)) acts.push(act('post', message, atMs + random.fraction() * 10_000));
    // A stop may come just as the work fails.
    if (messages[message]!.work.do === 'fail') acts.push(act('stop', message, atMs + scattered(random, 5, 5_000)));
    while (random.chance(0.4)) acts.push(act(random.pick(ACTS), message, atMs - 500 + random.fraction() ** 3 * 30_000));
  }
  return acts.map((each) => ({ ...each, atMs: Math.max(0, each.atMs) })).sort((a, b) => a.atMs - b.atMs);
}

function generationOf(random: SeededRandom, kind: Act['kind']): number | null {
  if (kind === 'retry') return random.chance(0.9) ? 0 : random.pick([-1, 1]);
  return random.chance(0.7) ? null : random.pick([0, 0, 1, 1, -1, 2]);
}

function faultsOf(
  random: SeededRandom,
  theme: Theme,
  pods: number,
  [fromMs, toMs]: readonly [number, number],
): Fault[] {
  const faults: Fault[] = [];
  const count = theme === 'storm' || theme === 'plain' ? 4 + random.below(6) : 1 + random.below(3);
  while (faults.length < count) {
    const kind = random.pick(theme === 'plain' ? PLAIN : random.chance(0.3) ? COMMON : FAULT_KINDS);
    const [leastMs, mostMs] = FAULT_MS[kind] ?? [0, 0];
    const ms = kind === 'clock_jump' ? between(random, leastMs, mostMs) : scattered(random, leastMs, mostMs);
    const fault: Fault = { kind, atMs: between(random, fromMs, toMs), pod: random.below(pods), ms };
    faults.push(fault);
    if (kind === 'crash' && random.chance(0.5)) faults.push(takeoverStall(random, fault));
  }
  return faults.sort((a, b) => a.atMs - b.atMs);
}

/** Who takes over what a dead pod has left stands still in the middle of it. */
function takeoverStall(random: SeededRandom, { atMs, pod }: Fault): Fault {
  const ms = between(random, ...PAST_LEASE_MS);
  return { kind: 'stall_before_commit', atMs: atMs + random.fraction() * 3_000, pod: pod + 1, ms };
}

function workOf(random: SeededRandom, theme: Theme, message: number, depth: number): Work {
  const id = `${message}-${depth}`;
  if (theme === 'poison' && random.chance(0.3)) return { id, do: 'die' };
  if (random.chance(theme === 'family' ? 0.6 : 0.1) && depth < 2) {
    const children = Array.from({ length: 1 + random.below(2) }, (_, nth) => ({
      // Some ask for a session of others.
      sessionId: random.chance(0.1) ? 's0' : `s-${message}-${depth}-${random.chance(0.8) ? nth : 0}`,
      work: workOf(random, theme, message, depth + 1 + nth * 10),
    }));
    return { id, do: 'spawn', children, awaits: random.chance(0.6) };
  }
  return { id, do: random.pick(['answer', 'act', 'act', 'act', 'fail'] as const) };
}

function between(random: SeededRandom, least: number, most: number): number {
  return least + random.fraction() * (most - least);
}

/** Small ones as often as large ones. */
export function scattered(random: SeededRandom, least: number, most: number): number {
  return least === most ? least : Math.exp(between(random, Math.log(least), Math.log(most)));
}
