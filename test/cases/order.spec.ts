import { expect, test } from '@jest/globals';
import { sessionFaults } from '../crash/harness/session-faults.js';
import { Caller } from '../e2e/harness/caller.js';
import { onServers } from '../e2e/harness/stage.js';
import { Watcher } from '../e2e/harness/watcher.js';

const POSTS = 50;
const caller = new Caller();

test(
  `${POSTS} messages to one session at once, at two pods, all get a place of their own, and run and are told in that order`,
  onServers(async (stage) => {
    const pods = await stage.start(['a', 'b']);
    await caller.say(pods[0], 's1', 'say first', 'first');
    const watcher = await Watcher.open(caller, pods[1], 's1', { after: 0 });
    const posts = Array.from({ length: POSTS }, (_, at) =>
      caller.post(pods[at % 2]!, 's1', { turnId: `t${at}`, content: 'say well' }),
    );
    const answers = await Promise.all(posts);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    const placed = answers.map(({ body }) => body).sort((a, b) => a.seq - b.seq);
    expect(new Set(placed.map(({ seq }) => seq)).size).toBe(POSTS);

    const order = ['first', ...placed.map(({ turnId }) => turnId)];
    await watcher.sees('turn.completed', order.at(-1));
    const events = await caller.events(pods[0], 's1');
    expect(sessionFaults(events)).toEqual([]);
    expect((await caller.turns(pods[0], 's1')).map(({ turnId }) => turnId)).toEqual(order);
    expect(events.filter(({ type }) => type === 'turn.started').map(({ turnId }) => turnId)).toEqual(order);
    expect(stage.calls().map(({ turn }) => turn)).toEqual(order);
    expect(watcher.events).toEqual(events);
    watcher.close();
  }),
);
