import { expect, test } from '@jest/globals';
import { Caller } from './harness/caller.js';
import { onServers } from './harness/stage.js';
import { until } from './harness/until.js';
import { Watcher } from './harness/watcher.js';

const HEARTBEAT_MS = 15_000;
/** No sweep: a session is served where it was posted to, and a watcher is told because it was told, not by a look. */
const SETTINGS = { SWEEP_INTERVAL_MS: '60000' };
const caller = new Caller();

test(
  'a watcher at another pod than the owner sees every event as it happens, in order, once',
  onServers(async (stage) => {
    const [owner, watched] = await stage.start(['owner', 'watched'], SETTINGS);
    await caller.say(owner, 's1', 'say warm up', 't0');
    await caller.ended(owner, 's1', 't0');
    const { lastSeq } = await caller.session(watched, 's1');
    const watcher = await Watcher.open(caller, watched, 's1');

    const work =
      'say one\nsleep 1\ntool append {"file":"f","line":"x"}\nparallel\n  tool sleep {"ms":5}\n  tool sleep {"ms":1}';
    for (const turnId of ['t1', 't2', 't3']) await caller.say(owner, 's1', work, turnId);
    await watcher.sees('turn.completed', 't3');

    const events = await caller.events(owner, 's1');
    expect(watcher.events).toEqual(events.slice(lastSeq));
    expect(watcher.ids).toEqual(watcher.events.map((event) => String(event.seq)));
    expect(watcher.retryMs).toBe(1000);
    expect(events.find((event) => event.type === 'owner.changed')!.data).toMatchObject({ podId: 'owner' });
    watcher.close();
  }),
);

test(
  'text comes while it is spoken, in pieces that adjoin, before the whole reply',
  onServers(async (stage) => {
    const [owner, watched] = await stage.start(['owner', 'watched'], SETTINGS);
    await caller.say(owner, 's1', 'say warm up', 't0');
    await caller.ended(owner, 's1', 't0');
    const watcher = await Watcher.open(caller, watched, 's1');
    const text = 'these words are spoken one by one';
    await caller.say(owner, 's1', `pace 60\nsay ${text}`, 't1');
    await until('a piece comes', () => watcher.deltas.length > 0);
    expect(watcher.events.some((event) => event.type === 'model.message')).toBe(false);
    const reply = await watcher.sees('model.message', 't1');

    expect(reply.data).toMatchObject({ text });
    let spoken = '';
    for (const { turnId, data } of watcher.deltas) {
      expect([turnId, data.attempt, data.offset]).toEqual(['t1', 1, spoken.length]);
      spoken += data.text;
    }
    expect(spoken).toBe(text);
    watcher.close();
  }),
);

test(
  'a watcher that comes back at a third pod with Last-Event-ID goes on where it was, missing and repeating nothing',
  onServers(async (stage) => {
    const [owner, second, third] = await stage.start(['owner', 'second', 'third'], SETTINGS);
    await caller.say(owner, 's1', 'say warm up', 't0');
    const first = await Watcher.open(caller, second, 's1', { after: 0 });
    await caller.say(owner, 's1', 'say one\nsleep 200\nsay two\nsleep 200\nsay three', 't1');
    await first.sees('model.message', 't1');
    first.close();
    const seen = first.lastSeq;
    await until('something is missed', async () => (await caller.session(owner, 's1')).lastSeq > seen);

    const again = await Watcher.open(caller, third, 's1', { lastEventId: seen, after: 0 });
    await again.sees('turn.completed', 't1');
    const all = await caller.events(owner, 's1');
    expect([...first.seqs, ...again.seqs]).toEqual(all.map((event) => event.seq));
    again.close();
  }),
);

test(
  'after=0 tells the whole session and then goes on live',
  onServers(async (stage) => {
    const [owner, watched] = await stage.start(['owner', 'watched'], SETTINGS);
    for (let at = 0; at < 10; at++) await caller.say(owner, 's1', 'say one\nsay two', `t${at}`);
    const watcher = await Watcher.open(caller, watched, 's1', { after: 0 });
    await watcher.sees('turn.completed', 't9');
    await caller.say(watched, 's1', 'say live', 'live');
    await watcher.sees('turn.completed', 'live');
    expect(watcher.events).toEqual(await caller.events(owner, 's1'));
    watcher.close();
  }),
);

test(
  'a pod that drains ends its streams with the cursor to go on from',
  onServers(async (stage) => {
    const [owner, draining] = await stage.start(['owner', 'draining'], SETTINGS);
    await caller.say(owner, 's1', 'say one', 't1');
    const watcher = await Watcher.open(caller, draining, 's1', { after: 0 });
    await watcher.sees('turn.completed', 't1');
    await draining.terminate();
    await until('the stream is closed', () => watcher.closed);
    expect(watcher.hint).toMatchObject({ reason: 'draining', after: watcher.lastSeq });

    const again = await Watcher.open(caller, owner, 's1', { after: watcher.hint!.after });
    await caller.say(owner, 's1', 'say two', 't2');
    await again.sees('turn.completed', 't2');
    expect([...watcher.events, ...again.events]).toEqual(await caller.events(owner, 's1'));
    again.close();
  }),
);

test(
  'a watcher is told nothing of another session or of a namesake in another account',
  onServers(async (stage) => {
    const [pod] = await stage.start(['pod'], SETTINGS);
    const stranger = new Caller('other', 'ann');
    for (const each of [caller, stranger]) await each.say(pod, 's1', 'say mine', 't1');
    const watcher = await Watcher.open(caller, pod, 's1', { after: 0 });
    await stranger.say(pod, 's1', 'say theirs', 't2');
    await caller.say(pod, 's2', 'say elsewhere', 't3');
    await stranger.ended(pod, 's1', 't2');
    await caller.ended(pod, 's2', 't3');
    await caller.say(pod, 's1', 'say last', 't4');
    await watcher.sees('turn.completed', 't4');
    expect(watcher.events).toEqual(await caller.events(pod, 's1'));
    watcher.close();
  }),
);

test(
  'a quiet stream is kept alive by heartbeats',
  onServers(async (stage) => {
    const [pod] = await stage.start(['pod'], SETTINGS);
    await caller.say(pod, 's1', 'say one', 't1');
    const watcher = await Watcher.open(caller, pod, 's1', { after: 0 });
    await until('a heartbeat', () => watcher.comments.includes('keep-alive'), HEARTBEAT_MS + 5000);
    expect(watcher.closed).toBe(false);
    watcher.close();
  }),
);
