import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { ADAPTERS, hear, type Nouns } from './coordinations.js';

describe.each(ADAPTERS)('channels in %s', (_, open) => {
  let nouns: Nouns;
  const channel = (name: string): string => `${nouns.keys.podsChannel()}:${name}`;

  beforeEach(async () => {
    nouns = await open();
  });
  afterEach(() => nouns.close());

  it('bring a message to everybody who listens, in order, and to nobody else', async () => {
    const [first, second] = [await hear(nouns, channel('a')), await hear(nouns, channel('a'))];
    const other = await hear(nouns, channel('b'));
    for (const word of ['one', 'two', 'three']) await nouns.channels.publish(channel('a'), word);
    const words = (await first.heard()).filter((message) => !message.startsWith('marker'));
    expect(words).toEqual(['one', 'two', 'three']);
    expect((await second.heard()).filter((message) => !message.startsWith('marker'))).toEqual(words);
    expect(await other.heard()).toEqual([]);
  });

  it('tell who is heard: how many on each channel, and the channels of a kind', async () => {
    const leave = await nouns.channels.subscribe(channel('kind*:a'), () => undefined);
    await nouns.channels.subscribe(channel('kind*:b'), () => undefined);
    await nouns.channels.subscribe(channel('kinder:c'), () => undefined);
    const names = ['kind*:a', 'nobody', 'kind*:b'].map(channel);
    const { connection, counts } = await nouns.channels.subscribers(names);
    expect(counts).toEqual([1, 0, 1]);
    expect((await nouns.channels.subscribed(channel('kind*:'))).sort()).toEqual(['kind*:a', 'kind*:b'].map(channel));
    leave();
    await nouns.channels.subscribe(channel('later'), () => undefined);
    expect(await nouns.channels.subscribers(names)).toEqual({ connection, counts: [0, 0, 1] });
  });

  it('never deliver inside publish', async () => {
    const heard: string[] = [];
    await nouns.channels.subscribe(channel('a'), (message) => heard.push(message));
    const published = nouns.channels.publish(channel('a'), 'word');
    expect(heard).toEqual([]);
    await published;
  });

  it('are left by the listener that asks, while others stay', async () => {
    const heard: string[] = [];
    const leave = await nouns.channels.subscribe(channel('a'), (message) => heard.push(message));
    const other = await hear(nouns, channel('a'));
    leave();
    leave();
    await nouns.channels.publish(channel('a'), 'word');
    expect(await other.heard()).toEqual(['word']);
    expect(heard).toEqual([]);
  });

  it('can be left and joined again at once', async () => {
    const heard: string[] = [];
    for (let round = 0; round < 20; round++) {
      const leave = await nouns.channels.subscribe(channel('a'), (message) => heard.push(message));
      leave();
    }
    const again = await hear(nouns, channel('a'));
    await nouns.channels.publish(channel('a'), 'word');
    expect(await again.heard()).toEqual(['word']);
    expect(heard).toEqual([]);
  });

  it('carry a listener that subscribes twice twice', async () => {
    const heard: string[] = [];
    const listener = (message: string): void => void heard.push(message);
    const [leave] = [
      await nouns.channels.subscribe(channel('a'), listener),
      await nouns.channels.subscribe(channel('a'), listener),
    ];
    const sync = await hear(nouns, channel('a'));
    await nouns.channels.publish(channel('a'), 'word');
    await sync.heard();
    leave();
    await nouns.channels.publish(channel('a'), 'again');
    await sync.heard();
    expect(heard.filter((message) => !message.startsWith('marker'))).toEqual(['word', 'word', 'again']);
  });
});
