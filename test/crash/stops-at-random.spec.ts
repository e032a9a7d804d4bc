import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Event, StopAnswer } from '#protocol';
import { type Service, startRedis } from '../../tools/services.mjs';
import { type Answer, Caller } from '../e2e/harness/caller.js';
import type { ServersPlace } from '../e2e/harness/places.js';
import type { Pod } from '../e2e/harness/pod.js';
import { Stage } from '../e2e/harness/stage.js';
import { until } from '../e2e/harness/until.js';
import { SeededRandom } from '../simulation/seeded-random.js';
import { sessionFaults } from './harness/session-faults.js';

const SESSIONS = 250;
const TURNS = 4;
const SESSIONS_AT_ONCE = 20;
/** Of each kind that a stop can meet. */
const MET_MIN = 100;
/** A stop whose notice is lost is found by a sweep of the pod that runs the turn; nobody is taken for dead meanwhile. */
const SETTINGS = { SWEEP_INTERVAL_MS: '500', PRESENCE_CHECK_MS: '0', LOG_LEVEL: 'error' };
/** How long before the stop the subscriptions are cut, at most. */
const CUT_BEFORE_MS = 50;
const SEED = 31;
const LIMIT_MS = 120_000;
const SHORT = 'say at once';
const LONG = 'say first\nsleep 900\nsay done';
const SCRIPTS = [
  ...[SHORT, LONG],
  'sleep 120\nsay done',
  'parallel\n  tool sleep {"ms":150}\n  tool sleep {"ms":80}\nsay done',
  'pace 15\nsay one two three four five six seven eight nine ten\nsay done',
];

/** A turn with its stop. Times in ms after its session's beginning. */
interface Stopped {
  session: string;
  turnId: string;
  content: string;
  isCut: boolean;
  postAtMs: number;
  stopAtMs: number;
  posted?: number;
  answer?: Answer<StopAnswer>;
  answeredMs?: number;
}
type Met = 'unborn' | 'queued' | 'running' | 'ended';

const caller = new Caller();

describe('1,000 turns on three pods, each stopped at a random time around its POST, half of them unheard', () => {
  const random = new SeededRandom(SEED);
  const all = Array.from({ length: SESSIONS }, (_, at) => planned(`s${at}`, at, random)).flat();
  const events = new Map<string, Event[]>();
  let redis: Service;
  let stage: Stage<ServersPlace>;
  let pods: Pod[];
  let cut = 0;

  beforeAll(async () => {
    redis = await startRedis();
    stage = await Stage.onServers({ redisUrl: redis.url });
    await stage.watch(play);
  }, LIMIT_MS);

  afterAll(async () => {
    await stage.end();
    await redis.stop();
  });

  async function play(): Promise<void> {
    pods = await stage.start(['a', 'b', 'c'], SETTINGS);
    const sessions = [...Map.groupBy(all, ({ session }) => session)];
    await inTurn(sessions.slice(0, SESSIONS / 2), ([, turns]) => playSession(turns));
    await inTurn(sessions.slice(SESSIONS / 2), ([, turns]) => playSession(turns));
    await until('every turn ends', async () => (await stage.place.query(LIVE)).length === 0);
    await inTurn(
      sessions,
      async ([session]) => void (await caller.say(anyPod(), session, 'say after', `${session}.z`)),
    );
    await inTurn(sessions, async ([session]) => {
      await until('the message behind them ends', async () => {
        const found = await caller.events(pods[0]!, session);
        events.set(session, found);
        return found.some(({ turnId, type }) => turnId === `${session}.z` && type === 'turn.completed');
      });
    });
  }

  const anyPod = (): Pod => random.pick(pods);

  async function playSession(turns: Stopped[]): Promise<void> {
    await Promise.all(turns.flatMap((turn) => [post(turn), stop(turn)]));
  }

  async function post(turn: Stopped): Promise<void> {
    const { session, turnId, content } = turn;
    await pause(turn.postAtMs);
    const { status, body } = await caller.post(anyPod(), session, { turnId, content });
    turn.posted = status;
    if (status === 409) expect(body).toMatchObject({ code: 'turn_stopped', turnId, generation: 1, state: 'stopped' });
  }

  async function stop(turn: Stopped): Promise<void> {
    const cutBeforeMs = turn.isCut ? Math.min(random.below(CUT_BEFORE_MS), turn.stopAtMs) : 0;
    await pause(turn.stopAtMs - cutBeforeMs);
    if (turn.isCut) cut += (await stage.place.redis.client('KILL', 'TYPE', 'pubsub')) as number;
    await pause(cutBeforeMs);
    turn.answer = await caller.stop(anyPod(), turn.session, turn.turnId);
    turn.answeredMs = Date.now();
  }

  const of = ({ session, turnId }: Stopped): Event[] => events.get(session)!.filter((event) => event.turnId === turnId);
  const endOf = (turn: Stopped): Event =>
    of(turn).find(({ type }) => ['turn.stopped', 'turn.completed', 'turn.failed'].includes(type))!;
  const met = (turn: Stopped): Met => {
    const { state, already } = turn.answer!.body;
    if (already) return 'ended';
    if (state === 'stop_requested') return 'running';
    return of(turn).some(({ type }) => type === 'message.accepted') ? 'queued' : 'unborn';
  };

  test('stops meet turns of every kind, each often', () => {
    const counts = Object.groupBy(all, met);
    const told = Object.entries(counts).map(([kind, turns]) => `${kind} ${turns.length}`);
    const delays = [false, true].map((isCut) => {
      const ms = all
        .filter((turn) => turn.isCut === isCut && met(turn) === 'running')
        .map((turn) => Math.max(0, Date.parse(endOf(turn).at) - turn.answeredMs!))
        .sort((a, b) => a - b);
      const at = (part: number): number => ms[Math.ceil(ms.length * part) - 1]!;
      return `${isCut ? 'subscriptions cut' : 'heard'}: median ${at(0.5)} ms, p99 ${at(0.99)} ms of ${ms.length}`;
    });
    process.stdout.write(
      `${all.length} stops met: ${told.join(', ')}; ${cut} subscriptions cut\n` +
        `from a stop's answer to the end of a running turn, ${delays.join('; ')}\n`,
    );
    expect(cut).toBeGreaterThan(10 * pods.length);
    for (const kind of ['unborn', 'queued', 'running', 'ended'] as const) {
      expect([kind, (counts[kind]?.length ?? 0) >= MET_MIN]).toEqual([kind, true]);
    }
  });

  test('a turn whose stop was answered `stopped` never begins a step', () => {
    const begun = new Set(stage.calls().map((call) => call.turn));
    const stopped = all.filter((turn) => turn.answer!.body.state === 'stopped');
    expect(stopped.flatMap(({ turnId }) => (begun.has(turnId) ? [turnId] : []))).toEqual([]);
    for (const turn of stopped) {
      expect(turn.answer).toMatchObject({ status: 202, body: { generation: 1, already: false } });
      expect(endOf(turn)).toMatchObject({ type: 'turn.stopped', data: { by: 'ann', gate: 'stop' } });
      expect(of(turn).filter(({ type }) => type === 'turn.started')).toEqual([]);
    }
  });

  test('a turn whose stop was answered `stop_requested` ends as stopped, and one that had ended stays as it was', () => {
    for (const turn of all) {
      const { state, already } = turn.answer!.body;
      if (state === 'stopped') continue;
      expect(turn.answer).toMatchObject({ status: 202, body: { already: state === 'completed' } });
      const types = of(turn).flatMap(({ type }) => (type.startsWith('turn.') ? [type] : []));
      expect([turn.turnId, state, types]).toEqual([
        turn.turnId,
        ...(already
          ? [state, ['turn.started', 'turn.completed']]
          : [state, ['turn.started', 'turn.stop_requested', 'turn.stopped']]),
      ]);
    }
  });

  test('a message is refused with `turn_stopped` when its stop was there first, and else accepted', () => {
    for (const turn of all) {
      const refusals = of(turn).filter(({ type }) => type === 'message.refused');
      const isUnborn = met(turn) === 'unborn';
      expect([turn.turnId, turn.posted, refusals.length]).toEqual([
        turn.turnId,
        isUnborn ? 409 : 202,
        isUnborn ? 1 : 0,
      ]);
    }
  });

  test('every session is whole: no gap, one turn at a time and in order, no tool call without its result', () => {
    for (const [session, found] of events) {
      expect({ session, faults: sessionFaults(found) }).toEqual({ session, faults: [] });
    }
  });
});

const LIVE = 'SELECT 1 FROM turn WHERE live = 1 LIMIT 1';

/**
 * Every other session begins with a turn that works for long, so stops meet it and those behind it; the others begin with
 * a short one, whose stop may come long after its end.
 */
function planned(session: string, at: number, random: SeededRandom): Stopped[] {
  const works = at % 2 === 0;
  return Array.from({ length: TURNS }, (_, place) => {
    const postAtMs = 120 + place * 30 + random.below(40);
    const isFirst = place === 0;
    const stopAtMs =
      postAtMs +
      (isFirst ? (works ? random.below(600) : 200 + random.below(1200)) : random.pick([-1, 1, 3]) * random.below(120));
    const content = isFirst ? (works ? LONG : SHORT) : random.pick(SCRIPTS);
    return { session, turnId: `${session}.${place}`, content, isCut: at >= SESSIONS / 2, postAtMs, stopAtMs };
  });
}

async function inTurn<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const one = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: SESSIONS_AT_ONCE }, one));
}
