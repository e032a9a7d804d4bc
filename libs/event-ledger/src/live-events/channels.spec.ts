import { describe, expect, it } from '@jest/globals';
import { MemoryChannels, MemoryStore, SystemClock } from '#platform';
import { type Event, KeyNames, type LiveDelta } from '#protocol';
import type { LiveFrame } from '../live-events.js';
import { ChannelLiveEvents } from './channels.js';

const SESSION = { account: 'a', sessionId: 's' };

function textEvent(seq: number, text: string): Event {
  const data = { step: 'model:1', attempt: 1, offset: 0, text };
  return { seq, type: 'model.text', turnId: 't', generation: 1, at: '2026-01-01T00:00:00.000Z', data };
}

describe('the live channel of a session', () => {
  const live = (): ChannelLiveEvents =>
    new ChannelLiveEvents(new MemoryChannels(new MemoryStore(new SystemClock())), new KeyNames('butler:'));
  const settled = (): Promise<void> => new SystemClock().sleep(1);

  it('tells its watchers what was committed and what is on its way, and others nothing', async () => {
    const events = live();
    const frames: LiveFrame[] = [];
    const others: LiveFrame[] = [];
    await events.follow(SESSION, (frame) => frames.push(frame));
    await events.follow({ ...SESSION, account: 'A' }, (frame) => others.push(frame));
    const delta: LiveDelta = {
      type: 'model.delta',
      turnId: 't',
      generation: 1,
      at: '',
      data: textEvent(1, 'hi').data as never,
    };
    events.delta(SESSION, delta);
    events.committed(SESSION, [textEvent(1, 'hi'), textEvent(2, 'you')]);
    events.committed(SESSION, []);
    await settled();
    expect(frames).toEqual([
      { kind: 'delta', delta },
      { kind: 'events', events: [textEvent(1, 'hi'), textEvent(2, 'you')], lastSeq: 2 },
    ]);
    expect(others).toEqual([]);
  });

  it('tells only the seq of what is too large, and leaves too large a piece out', async () => {
    const events = live();
    const frames: LiveFrame[] = [];
    await events.follow(SESSION, (frame) => frames.push(frame));
    const large = 'ä'.repeat(40_000);
    events.delta(SESSION, {
      type: 'model.delta',
      turnId: 't',
      generation: 1,
      at: '',
      data: textEvent(1, large).data as never,
    });
    events.committed(SESSION, [textEvent(6, 'small'), textEvent(7, large)]);
    await settled();
    expect(frames).toEqual([{ kind: 'events', events: [], lastSeq: 7 }]);
  });

  it('tells nothing after the watcher has left', async () => {
    const events = live();
    const frames: LiveFrame[] = [];
    const leave = await events.follow(SESSION, (frame) => frames.push(frame));
    leave();
    events.committed(SESSION, [textEvent(1, 'hi')]);
    await settled();
    expect(frames).toEqual([]);
  });
});
