import { expect, test } from '@jest/globals';
import type { Event } from '#protocol';
import { ApiError, ButlerClient, endsTurn, type Frame, NetworkError, type WatchState } from '#client';
import { Caller } from './harness/caller.js';
import type { Pod } from './harness/pod.js';
import { onServers } from './harness/stage.js';
import { until } from './harness/until.js';

const SETTINGS = { LEASE_TTL_MS: '3000', LEASE_RENEW_MS: '1000' };
const caller = new Caller();

/** A client of several pods, each attempt at the next one: a balancer that does not look who lives. */
class Balanced {
  /** What came of each attempt. */
  readonly outcomes: (number | 'no answer')[] = [];
  private turn = 0;
  readonly client: ButlerClient;

  constructor(pods: readonly Pod[]) {
    const urls = pods.map((pod) => pod.url);
    this.client = new ButlerClient({
      baseUrl: () => urls[this.turn++ % urls.length]!,
      headers: caller.headers,
      fetch: async (input, init) => {
        const at = this.outcomes.push('no answer') - 1;
        const response = await fetch(input, init);
        this.outcomes[at] = response.status;
        return response;
      },
    });
  }
}

/** Reads a watch until it is told to leave. */
class Reader {
  readonly events: Event[] = [];
  readonly states: WatchState['state'][] = [];
  spoken = '';
  private readonly leaving = new AbortController();
  private readonly ended: Promise<void>;

  constructor(client: ButlerClient, sessionId: string, after?: number) {
    const onState = ({ state }: WatchState): void => void this.states.push(state);
    this.ended = this.read(client.watch(sessionId, { after, onState, signal: this.leaving.signal }));
  }

  sees(type: Event['type'], turnId: string): Promise<Event> {
    return until(`the client sees ${type} of ${turnId}`, () =>
      this.events.find((event) => event.type === type && event.turnId === turnId),
    );
  }

  async leave(): Promise<void> {
    this.leaving.abort();
    await this.ended;
  }

  private async read(frames: AsyncIterable<Frame>): Promise<void> {
    for await (const frame of frames) {
      if (frame.type === 'model.delta') this.spoken += frame.data.text;
      else this.events.push(frame);
    }
  }
}

test(
  'a watch whose pod is killed goes on at another one: the exact suffix, without a gap or a copy',
  onServers(async (stage) => {
    const [watched, other] = await stage.start(['watched', 'other'], SETTINGS);
    const { client } = new Balanced([watched, other]);
    await caller.say(watched, 's1', 'say one', 't0');
    const { seq } = (await client.waitForTurn('s1', 't0')) satisfies Event;
    const work = 'say one\nsleep 300\nsay two\nsleep 300\nsay three\nsleep 300\nsay four';
    // The balancer is at the first pod again: that is where the watch goes, and the turn.
    const balanced = new Balanced([watched, other]);
    const reader = new Reader(balanced.client, 's1', seq);
    await until('it is live', () => reader.states.includes('live'));
    await caller.say(watched, 's1', work, 't1');
    await reader.sees('model.message', 't1');
    await watched.kill();
    await reader.sees('turn.completed', 't1');
    await caller.say(other, 's1', 'say more', 't2');
    await reader.sees('turn.completed', 't2');
    await reader.leave();

    expect(reader.events).toEqual((await caller.events(other, 's1')).slice(seq));
    expect(reader.states).toContain('waiting');
    expect(reader.states.at(-1)).toBe('live');
    expect(balanced.outcomes[0]).toBe(200);
  }),
);

test(
  'a watch goes on at once where a drained pod sends it, and misses nothing',
  onServers(async (stage) => {
    const [draining, other] = await stage.start(['draining', 'other']);
    await caller.say(other, 's1', 'say one', 't0');
    const reader = new Reader(new Balanced([draining, other]).client, 's1', 0);
    await reader.sees('turn.completed', 't0');
    const gone = draining.terminate();
    await caller.say(other, 's1', 'say one\nsleep 600\nsay two', 't1');
    await gone;
    await reader.sees('turn.completed', 't1');
    await reader.leave();
    expect(reader.events).toEqual(await caller.events(other, 's1'));
    expect(reader.states).toEqual(['connecting', 'live', 'connecting', 'live']);
  }),
);

test(
  'live text adjoins, and makes up the reply',
  onServers(async (stage) => {
    const [pod] = await stage.start(['pod']);
    const { client } = new Balanced([pod]);
    await client.sessions.create({ sessionId: 's1' });
    const reader = new Reader(client, 's1');
    await until('it is live', () => reader.states.includes('live'));
    const turn = await client.post('s1', { content: 'pace 40\nsay these words 👍 are spoken one by one' });
    await until('it ends', () => reader.events.some((event) => endsTurn(event, turn)));
    await reader.leave();
    // The last words may come with the message that settles the step, before they come live.
    const whole = 'these words 👍 are spoken one by one';
    expect(whole.startsWith(reader.spoken)).toBe(true);
    expect(reader.spoken.length).toBeGreaterThan(whole.length / 2);
    const settled = reader.events.flatMap((event) => (event.type === 'model.message' ? [event.data.text] : []));
    expect(settled).toEqual([whole]);
  }),
);

test(
  'messages posted while a pod drains are all accepted, each once, though some attempts are refused',
  onServers(async (stage) => {
    const [draining, other] = await stage.start(['draining', 'other'], { SHUTDOWN_LINGER_MS: '300' });
    const { client, outcomes } = new Balanced([draining, other]);
    const gone = draining.terminate();
    let isGone = false;
    void gone.then(() => (isGone = true));
    const accepted: string[] = [];
    for (let at = 0; !isGone || accepted.length < 20; at++) {
      const { turnId } = await client.post(`s${at % 4}`, { content: 'say hello' });
      accepted.push(turnId);
    }
    expect(outcomes.some((outcome) => outcome === 503 || outcome === 'no answer')).toBe(true);
    const events = (await Promise.all([0, 1, 2, 3].map((at) => caller.events(other, `s${at}`)))).flat();
    const turns = events.filter(({ type }) => type === 'message.accepted').map(({ turnId }) => turnId);
    expect(turns.sort()).toEqual(accepted.sort());
    expect(await gone).toMatchObject({ code: 0 });
  }),
);

test(
  'a message that finds the queue full is sent again when there is room',
  onServers(async (stage) => {
    const [pod] = await stage.start(['pod'], { QUEUE_MAX_PENDING: '1' });
    const { client, outcomes } = new Balanced([pod]);
    await client.post('s1', { turnId: 't1', content: 'sleep 1500' });
    await until('it runs', async () => (await client.turn('s1', 't1')).state === 'running');
    await client.post('s1', { turnId: 't2', content: 'say two' });
    const third = client.post('s1', { turnId: 't3', content: 'say three' });
    expect(await third).toMatchObject({ turnId: 't3', replayed: false });
    expect(outcomes).toContain(429);
    expect(await client.waitForTurn('s1', 't3')).toMatchObject({ type: 'turn.completed', turnId: 't3' });
  }),
);

test(
  'everything that a user does, and how it is refused',
  onServers(async (stage) => {
    const [pod] = await stage.start(['pod']);
    const { client } = new Balanced([pod]);
    const session = await client.sessions.create({ sessionId: 's1', title: 'first' });
    expect(await client.sessions.create({ sessionId: 's1', title: 'first' })).toEqual(session);
    expect(await client.sessions.change('s1', { title: null })).not.toHaveProperty('title');
    await expect(client.sessions.create({ sessionId: 's1', title: 'other' })).rejects.toMatchObject({
      ...{ name: 'ApiError', status: 409, code: 'session_exists', isRetryable: false },
    });

    await client.post('s1', { turnId: 't1', content: 'sleep 60000' });
    const waiting = await client.post('s1', { turnId: 't2', content: 'say two', metadata: { from: 'test' } });
    expect(await client.post('s1', { turnId: 't2', content: 'say two', metadata: { from: 'test' } })).toEqual({
      ...{ ...waiting, replayed: true },
    });
    expect(await client.edit('s1', 't2', 'say edited')).toMatchObject({ content: 'say edited', state: 'queued' });
    await until('it runs', async () => (await client.turn('s1', 't1')).state === 'running');
    expect(await client.ownership('acme', 's1')).toMatchObject({
      owner: { podId: 'pod' },
      lastSeq: expect.any(Number),
    });
    expect(await client.stop('s1', 't1', { reason: 'enough' })).toMatchObject({ state: 'stop_requested' });
    expect(await client.waitForTurn('s1', 't1')).toMatchObject({ type: 'turn.stopped', data: { reason: 'enough' } });
    expect(await client.waitForTurn('s1', 't2')).toMatchObject({ type: 'turn.completed' });
    expect(await client.retry('s1', 't2', 1)).toMatchObject({ generation: 2, replayed: false });
    expect(await client.retry('s1', 't2', 1)).toMatchObject({ generation: 2, replayed: true });
    expect(await client.waitForTurn('s1', 't2')).toMatchObject({ type: 'turn.completed', generation: 2 });
    expect(await client.waitForTurn('s1', 't2', { generation: 1 })).toMatchObject({ generation: 1 });
    expect(await client.stop('s1', 'unborn')).toMatchObject({ state: 'stopped', already: false });
    expect(await client.waitForTurn('s1', 'unborn')).toMatchObject({ type: 'turn.stopped', data: { gate: 'stop' } });

    const listed: unknown[] = [];
    for await (const { turns } of client.turns('s1', { limit: 1 })) listed.push(...turns.map(({ turnId }) => turnId));
    for await (const { sessions } of client.sessions.list()) listed.push(...sessions.map(({ sessionId }) => sessionId));
    expect(listed).toEqual(['t1', 't2', 's1']);
    const events: Event[] = [];
    for await (const page of client.events('s1', { limit: 3 })) events.push(...page.events);
    expect(events).toEqual(await caller.events(pod, 's1'));

    const none = client.watch('none', { after: 0 });
    await expect(none.next()).rejects.toMatchObject({ status: 404, code: 'not_found' });
    await expect(client.turn('s1', 'none')).rejects.toBeInstanceOf(ApiError);
    await pod.kill();
    const impatient = new ButlerClient({ baseUrl: pod.url, retry: { attempts: 2, baseMs: 10 } });
    await expect(impatient.sessions.get('s1')).rejects.toBeInstanceOf(NetworkError);
  }),
);
