import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Accepted, Event, ModelMessage, Turn } from '#protocol';
import { Caller } from './harness/caller.js';
import type { Pod } from './harness/pod.js';
import type { ScriptCall } from './harness/script-calls.js';
import { Stage } from './harness/stage.js';

const SESSIONS = 50;
const MESSAGES = 10;
const CLIENTS = 50;

/** Each session is said these, one after the other in an order that the clients' race decides. */
const CONTENTS = [
  'say hello there',
  'sleep 1',
  'tool append {"file":"FILE","line":"a"}\nsay appended',
  'parallel\n  tool sleep {"ms":40}\n  tool append {"file":"FILE","line":"b"}\n  tool sleep {"ms":1}',
  'history',
  'sleep 1\nsay one\nsleep 40\nsay two',
  'tool append {"file":"FILE","line":"c"}\ntool append {"file":"FILE","line":"d"}',
  'say first\nsay second',
  'parallel\n  tool append {"file":"FILE","line":"e"}\n  tool append {"file":"FILE","line":"f"}\nsay both',
  'history',
];
const LINES = ['a', 'b', 'c', 'd', 'e', 'f'];

const caller = new Caller();
const accepted = new Map<string, Accepted[]>();
const turns = new Map<string, Turn[]>();
const events = new Map<string, Event[]>();
const callsOf = new Map<string, ScriptCall[]>();
let stage: Awaited<ReturnType<typeof Stage.onServers>>;

beforeAll(async () => {
  stage = await Stage.onServers();
  await stage.watch(play);
}, 120_000);

afterAll(() => stage.end());

async function play(): Promise<void> {
  const pods = await stage.start(['a', 'b', 'c'], { LOG_LEVEL: 'warn' });
  await postAll(pods);
  for (const [session, posted] of accepted) {
    for (const { turnId } of posted) await caller.ended(pods[0], session, turnId, 60_000);
    turns.set(session, await caller.turns(pods[1], session));
    events.set(session, await caller.events(pods[2], session));
  }
  for (const [session, calls] of Map.groupBy(stage.calls(), (call) => call.session)) callsOf.set(session, calls);
}

test('every message that was accepted ends as a completed turn', () => {
  expect(turns.size).toBe(SESSIONS);
  for (const [session, list] of turns) {
    expect(list.map((turn) => turn.state)).toEqual(Array<string>(MESSAGES).fill('completed'));
    expect(new Set(list.map((turn) => turn.turnId))).toEqual(
      new Set(accepted.get(session)!.map((each) => each.turnId)),
    );
  }
});

test('every turn runs once: one start, one attempt, each step called once, each line written once', () => {
  for (const [session, list] of turns) {
    expect(startsOf(session).sort()).toEqual(list.map((turn) => turn.turnId).sort());
    expect(events.get(session)!.filter((event) => event.type === 'turn.resumed')).toEqual([]);
    const steps = callsOf.get(session)!.map((call) => `${call.turn} ${call.key}`);
    expect(steps.length).toBe(new Set(steps).size);
    expect(callsOf.get(session)!.filter((call) => call.attempt !== 1 || call.generation !== 1)).toEqual([]);
    const written = stage.lines(session).map((line) => LINES.find((text) => line.endsWith(` ${text}`)));
    expect(written.sort()).toEqual(LINES);
  }
});

test('turns start in the order of queueSeq, as the ledger has it and as the work itself shows', () => {
  for (const [session, list] of turns) {
    const order = list.map((turn) => turn.turnId);
    expect(list.map((turn) => turn.queueSeq)).toEqual(list.map((turn) => turn.queueSeq).sort((a, b) => a! - b!));
    expect([...accepted.get(session)!].sort((a, b) => a.seq - b.seq).map((each) => each.turnId)).toEqual(order);
    expect(startsOf(session)).toEqual(order);
    expect([...new Set(callsOf.get(session)!.map((call) => call.turn))]).toEqual(order);
  }
});

test('every event list is 1, 2, 3 … without a gap', () => {
  for (const [session, list] of events) {
    expect([session, list.map((event) => event.seq)]).toEqual([session, list.map((_, at) => at + 1)]);
  }
});

test('no two steps of a session overlap but the parallel tools of one reply, as seen from the calls alone', () => {
  expect(callsOf.size).toBe(SESSIONS);
  for (const calls of callsOf.values()) {
    let endNs = 0n;
    for (const step of stepsOf(calls)) {
      expect(step.startNs > endNs).toBe(true);
      endNs = step.endNs;
    }
  }
});

test('a history tells everything said before it, in order', () => {
  for (const [session, list] of turns) {
    const contents = list.map((turn) => turn.content as string);
    for (const [at, turn] of list.entries()) {
      if (turn.content !== 'history') continue;
      const given = JSON.parse(replyOf(session, turn.turnId)) as ModelMessage[];
      const said = given.filter((message) => message.role === 'user').map((message) => message.content);
      expect(said).toEqual(contents.slice(0, at + 1));
    }
  }
});

test('no pod logged an error', () => {
  expect(stage.pods.flatMap((pod) => pod.errors)).toEqual([]);
});

/** Fifty clients take one message after the other from a heap of all and post it to some pod. */
async function postAll(pods: readonly Pod[]): Promise<void> {
  const heap = shuffled(
    Array.from({ length: SESSIONS * MESSAGES }, (_, at) => ({
      session: `s${at % SESSIONS}`,
      content: CONTENTS[Math.floor(at / SESSIONS)]!.replaceAll('FILE', `s${at % SESSIONS}`),
    })),
  );
  const client = async (): Promise<void> => {
    for (let job = heap.pop(); job; job = heap.pop()) {
      const pod = pods[heap.length % pods.length]!;
      const answer = await caller.say(pod, job.session, job.content);
      accepted.set(job.session, [...(accepted.get(job.session) ?? []), answer]);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
}

/** The same disorder at each run; what differs is the race. */
function shuffled<T>(items: T[]): T[] {
  let state = 12_345;
  for (let at = items.length - 1; at > 0; at--) {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    const other = state % (at + 1);
    [items[at], items[other]] = [items[other]!, items[at]!];
  }
  return items;
}

function startsOf(session: string): (string | null)[] {
  return events.get(session)!.flatMap((event) => (event.type === 'turn.started' ? [event.turnId] : []));
}

function replyOf(session: string, turnId: string): string {
  const replies = events.get(session)!.filter((event) => event.turnId === turnId && event.type === 'model.message');
  return (replies[0]!.data as { text: string }).text;
}

/** Calls in the order of their start; tool calls that follow each other in one attempt are one step, model calls never. */
function stepsOf(calls: readonly ScriptCall[]): { startNs: bigint; endNs: bigint }[] {
  const steps: { startNs: bigint; endNs: bigint; tools: string | null }[] = [];
  for (const call of calls) {
    const endNs = call.endNs ?? call.startNs;
    const tools = call.kind === 'tool' ? `${call.turn} ${call.attempt}` : null;
    const last = steps.at(-1);
    if (last && tools !== null && last.tools === tools) last.endNs = endNs > last.endNs ? endNs : last.endNs;
    else steps.push({ startNs: call.startNs, endNs, tools });
  }
  return steps;
}
