import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { PARTITIONS } from '#protocol';
import { FILL_MARK_TTL_MS } from '#message-queue';
import { ADAPTERS, type Nouns } from './coordinations.js';

describe.each(ADAPTERS)('partition marks in %s', (_, open) => {
  let nouns: Nouns;

  beforeEach(async () => {
    nouns = await open();
  });
  afterEach(() => nouns.close());

  it('say that everything is lost at first', async () => {
    expect(await nouns.marks.states()).toEqual(Array.from({ length: PARTITIONS }, () => 'lost'));
  });

  it('let one pod fill a partition, for a limited time', async () => {
    expect(await nouns.marks.beginFilling([3, 7, 255], 'n1')).toEqual([3, 7, 255]);
    expect(await nouns.marks.beginFilling([3, 7, 8], 'n2')).toEqual([8]);
    await nouns.age(nouns.keys.intact(3));
    expect(await nouns.marks.beginFilling([3], 'n1')).toEqual([3]);
    const ttlMs = await nouns.ttlMs(nouns.keys.intact(3));
    expect(ttlMs).toBeGreaterThan(FILL_MARK_TTL_MS - 5_000);
    const states = await nouns.marks.states();
    expect([states[3], states[8], states[9], states[255]]).toEqual(['filling', 'filling', 'lost', 'filling']);
  });

  it('count a partition as intact only when its filler’s mark still stood', async () => {
    await nouns.marks.beginFilling([1, 2], 'n1');
    await nouns.flush();
    await nouns.marks.beginFilling([2], 'n2');
    expect(await nouns.marks.finishFilling([1, 2], 'n1')).toEqual([]);
    expect(await nouns.marks.finishFilling([1, 2], 'n2')).toEqual([2]);
    expect((await nouns.marks.states()).slice(1, 3)).toEqual(['lost', 'intact']);
  });

  it('let their filler keep them for as long as it takes, but not come back to one that it has lost', async () => {
    await nouns.marks.beginFilling([1, 2, 3], 'n1');
    await nouns.age(nouns.keys.intact(1));
    expect(await nouns.marks.keepFilling([1], 'n1')).toEqual([1]);
    expect(await nouns.ttlMs(nouns.keys.intact(1))).toBeGreaterThan(FILL_MARK_TTL_MS - 5_000);
    await nouns.marks.finishFilling([2], 'n1');
    expect(await nouns.marks.keepFilling([1, 2, 4], 'n1')).toEqual([1]);
    expect(await nouns.ttlMs(nouns.keys.intact(2))).toBeNull();
    expect(await nouns.marks.keepFilling([1], 'n2')).toEqual([]);
    await nouns.flush();
    expect(await nouns.marks.keepFilling([1, 3], 'n1')).toEqual([]);
    expect((await nouns.marks.states())[1]).toBe('lost');
  });

  it('keep an intact partition: it does not run out and nobody fills it again', async () => {
    await nouns.marks.beginFilling([5], 'n1');
    await nouns.marks.finishFilling([5], 'n1');
    expect(await nouns.ttlMs(nouns.keys.intact(5))).toBeNull();
    expect(await nouns.marks.beginFilling([5], 'n1')).toEqual([]);
    expect(await nouns.marks.finishFilling([5], 'n1')).toEqual([]);
    expect((await nouns.marks.states())[5]).toBe('intact');
  });

  it('give a partition’s turn at the reconciler to one pod at a time', async () => {
    expect(await nouns.marks.claimReconciling([1, 2], 'n1', 4_000)).toEqual([1, 2]);
    expect(await nouns.marks.claimReconciling([1, 2, 3], 'n2', 4_000)).toEqual([3]);
    expect(await nouns.marks.claimReconciling([1], 'n1', 4_000)).toEqual([1]);
    expect(await nouns.ttlMs(nouns.keys.reconciling(1))).toBeLessThanOrEqual(4_000);
    expect(await nouns.ttlMs(nouns.keys.reconciling(1))).toBeGreaterThan(0);
  });
});
