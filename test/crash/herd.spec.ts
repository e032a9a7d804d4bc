import { expect, test } from '@jest/globals';
import type { Event } from '#protocol';
import { Caller } from '../e2e/harness/caller.js';
import type { ServersPlace } from '../e2e/harness/places.js';
import type { Pod } from '../e2e/harness/pod.js';
import { onServers, type Stage } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';
import { repetitions } from './harness/repeated-steps.js';
import { RoomWatch } from './harness/room-watch.js';
import { sessionFaults } from './harness/session-faults.js';

/** Busy sessions of the pod that dies. When it is given, as in `HERD=500`, what was measured is told. */
const HERD = Number(process.env.HERD ?? 150);
/** Two pods have no room for the last third until the first ones are done. */
const MAX_ACTIVE = Math.ceil(HERD / 3);
/** Long enough that all of the herd is at work when its pod dies. */
const WORK = `say one\nsleep ${4000 + HERD * 20}\nsay two`;
/** Users of the survivors, each with messages to sessions of its own. */
const VISITORS = 4;
const VISITOR_SESSIONS = 5;
const VISITOR_PAUSE_MS = 100;
const POSTS_AT_ONCE = 10;
const LIMIT_MS = 180_000;
const caller = new Caller();

/** A message of a visitor, and how long its 202 took. */
interface Visit {
  session: string;
  turnId: string;
  answeredMs: number;
}

test(
  'the busy sessions of a dead pod are taken over within the room of the others, longest waiting first, and keep nobody out',
  onServers(async (stage) => {
    const dying = await busyPod(stage);
    const others = await stage.start(['first', 'second'], { ACTOR_MAX_ACTIVE: String(MAX_ACTIVE) });
    const looked = await Promise.all(others.map((pod) => pod.watchAt('presence.looked')));
    await until('they know each other', () => looked.every((looks) => looks().length > 2));
    await until('all of it is at work', () => asleep(stage) === HERD);

    const rooms = RoomWatch.over(others);
    const visits = Promise.withResolvers<void>();
    await dying.kill();
    const killedMs = Date.now();
    const visiting = visit(others, visits.promise);
    await until('the herd is through', () => nobodyLives(stage, 'herd-%'), LIMIT_MS);
    visits.resolve();
    const visited = await visiting;
    await until('the visitors are served', () => nobodyLives(stage, '%'));

    expect(await rooms.end()).toBeLessThanOrEqual(MAX_ACTIVE);
    const takenMs = (await takeovers(stage, others[0])).map((at) => at - killedMs);
    const [oldest, youngest] = [takenMs.slice(0, HERD / 3), takenMs.slice(-HERD / 3)];
    expect(Math.max(...oldest)).toBeLessThan(Math.min(...youngest));
    const waitedMs = await waits(others[0], visited);
    // The last of the herd waited for room; nobody who came in meanwhile did.
    expect(Math.max(...waitedMs)).toBeLessThan(Math.min(...youngest) - Math.max(...oldest));
    if (process.env.HERD) tell({ takenMs, answeredMs: visited.map(({ answeredMs }) => answeredMs), waitedMs });
  }),
  LIMIT_MS * 2,
);

/** A pod with a herd of sessions, the first ones at work for longest. */
async function busyPod(stage: Stage<ServersPlace>): Promise<Pod> {
  const [pod] = await stage.start(['dying'], { ACTOR_MAX_ACTIVE: String(HERD) });
  for (let at = 0; at < HERD; at += POSTS_AT_ONCE) {
    const some = Array.from({ length: Math.min(POSTS_AT_ONCE, HERD - at) }, (_, nth) => at + nth);
    await Promise.all(some.map((each) => caller.say(pod, `herd-${each}`, WORK, `t${each}`)));
  }
  return pod;
}

/** How many turns of the herd are in the middle of their work. */
function asleep(stage: Stage<ServersPlace>): number {
  return stage.calls().filter(({ key, endNs }) => key === 'model:2' && endNs === null).length;
}

async function nobodyLives({ place }: Stage<ServersPlace>, sessions: string): Promise<boolean> {
  const rows = await place.query(`SELECT 1 FROM turn WHERE live = 1 AND session_id LIKE '${sessions}' LIMIT 1`);
  return rows.length === 0;
}

/** Says things in sessions of the pods, old and new ones, until it is enough. */
async function visit(pods: readonly Pod[], enough: Promise<void>): Promise<Visit[]> {
  const visits: Visit[] = [];
  let over = false;
  void enough.then(() => (over = true));
  const visitor = async (_: unknown, who: number): Promise<void> => {
    for (let at = 0; !over; at++) {
      const visited = { session: `other-${who}-${at % VISITOR_SESSIONS}`, turnId: `o${who}-${at}` };
      const sinceMs = performance.now();
      await caller.say(pods[at % pods.length]!, visited.session, 'say hello', visited.turnId);
      visits.push({ ...visited, answeredMs: performance.now() - sinceMs });
      await new Promise((resolve) => setTimeout(resolve, VISITOR_PAUSE_MS));
    }
  };
  await Promise.all(Array.from({ length: VISITORS }, visitor));
  return visits;
}

/** When each session of the herd was taken over, once and without a fault; ms since 1970. */
async function takeovers(stage: Stage<ServersPlace>, pod: Pod): Promise<number[]> {
  const calls = Map.groupBy(stage.calls(), (call) => call.session);
  const all: number[] = [];
  for (let at = 0; at < HERD; at++) {
    const events = await caller.events(pod, `herd-${at}`);
    const resumed = events.filter((event): event is Resumed => event.type === 'turn.resumed');
    expect({ at, faults: sessionFaults(events), last: events.at(-1)!.type }).toEqual({
      ...{ at, faults: [], last: 'turn.completed' },
    });
    expect(repetitions(events, calls.get(`herd-${at}`) ?? [])).toEqual([]);
    expect({ at, attempts: resumed.map(({ data }) => data.attempt) }).toEqual({ at, attempts: [2] });
    all.push(Date.parse(resumed[0]!.at));
  }
  return all;
}

type Resumed = Extract<Event, { type: 'turn.resumed' }>;

/** How long each message waited for its start, in ms. */
async function waits(pod: Pod, visits: readonly Visit[]): Promise<number[]> {
  const all: number[] = [];
  for (const session of new Set(visits.map((each) => each.session))) {
    for (const { acceptedAt, startedAt } of await caller.turns(pod, session)) {
      all.push(Date.parse(startedAt!) - Date.parse(acceptedAt!));
    }
  }
  expect(all).toHaveLength(visits.length);
  return all;
}

function tell(measured: Record<string, readonly number[]>): void {
  for (const [what, all] of Object.entries(measured)) {
    const sorted = all.toSorted((a, b) => a - b);
    const at = (share: number): string => sorted[Math.ceil(share * (sorted.length - 1))]!.toFixed(0);
    process.stderr.write(`${what}: ${all.length} · p50 ${at(0.5)} · p99 ${at(0.99)} · longest ${at(1)} ms\n`);
  }
}
