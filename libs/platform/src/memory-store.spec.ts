import { describe, expect, it } from '@jest/globals';
import { ManualClock } from '#test-kit';
import { MemoryStore } from './memory-store.js';

describe('the memory store', () => {
  it('drops a key when its time is over, on the monotonic clock', async () => {
    const clock = new ManualClock();
    const store = new MemoryStore(clock);
    store.set('lock', 'a', 1_000);
    store.setFields('record', { state: 'queued' }, 2_000);
    await clock.advance(999);
    expect([store.get('lock'), store.ttlMs('lock')]).toEqual(['a', 1]);
    await clock.advance(1);
    expect([store.get('lock'), store.ttlMs('lock'), store.hash('record').get('state')]).toEqual([null, null, 'queued']);
    await clock.advance(1_000);
    expect(store.hash('record').size).toBe(0);
    expect(store.size).toBe(0);
  });

  it('renews the expiry of a key that is set again, or takes it away', async () => {
    const clock = new ManualClock();
    const store = new MemoryStore(clock);
    store.set('a', '1', 1_000);
    store.set('b', '1', 1_000);
    await clock.advance(600);
    store.set('a', '2', 1_000);
    store.set('b', '2');
    await clock.advance(600);
    expect([store.get('a'), store.get('b'), store.ttlMs('b')]).toEqual(['2', '2', null]);
  });

  it('does not grow with keys that nobody asks for again', async () => {
    const clock = new ManualClock();
    const store = new MemoryStore(clock);
    let most = 0;
    for (let nth = 0; nth < 20_000; nth++) {
      store.setFields(`record ${nth}`, { state: 'completed' }, 1_000);
      clock.stall(10);
      most = Math.max(most, store.size);
    }
    expect(most).toBeLessThan(500);
    expect(clock.pending).toBe(0);
  });

  it('holds no empty list and no empty set', () => {
    const store = new MemoryStore(new ManualClock());
    store.push('list', 'a');
    store.add('set', 'a', 1);
    store.setList('list', []);
    store.remove('set', 'a');
    expect(store.size).toBe(0);
  });

  it('does not let a reader change what it holds', () => {
    const store = new MemoryStore(new ManualClock());
    store.push('list', 'a');
    const before = store.list('list');
    store.push('list', 'b');
    expect([before, store.list('list')]).toEqual([['a'], ['a', 'b']]);
  });

  it('forgets all keys on a flush, and keeps its listeners', async () => {
    const store = new MemoryStore(new ManualClock());
    const heard: string[] = [];
    store.subscribe('channel', (message) => heard.push(message));
    store.set('a', '1');
    store.clear();
    store.publish('channel', 'hello');
    await Promise.resolve();
    expect([store.size, heard]).toEqual([0, ['hello']]);
  });
});
