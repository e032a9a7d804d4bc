import { describe, expect, it } from '@jest/globals';
import { Place, Rooms } from './rooms.js';

describe('the room of a pod', () => {
  const of = (max: number) => {
    const seen = { open: true, freed: 0 };
    const rooms = new Rooms(
      max,
      () => seen.open,
      () => seen.freed++,
    );
    return { rooms, seen, place: () => new Place(rooms) };
  };
  const settled = async (promise: Promise<void>): Promise<boolean> => {
    let done = false;
    void promise.then(() => (done = true));
    for (let turns = 0; turns < 10; turns++) await Promise.resolve();
    return done;
  };

  it('has so many places, each taken and given back once', () => {
    const { rooms, seen, place } = of(2);
    const [a, b, c] = [place(), place(), place()];
    expect([a.take(), a.take(), b.take(), c.take()]).toEqual([true, true, true, false]);
    a.leave();
    a.leave();
    expect([rooms.working, seen.freed]).toEqual([1, 1]);
    expect(c.take('found')).toBe(true);
  });

  it('gives what comes free to those who wait, and asks who that is when somebody else comes', () => {
    const { rooms, seen, place } = of(1);
    const [first, waiting, late] = [place(), place(), place()];
    first.take();
    expect(waiting.take()).toBe(false);
    first.leave();
    expect([late.take(), seen.freed]).toEqual([false, 2]);
    expect(waiting.take('found')).toBe(true);
    waiting.leave();
    rooms.looked(false);
    expect(late.take()).toBe(true);
  });

  it('keeps a tenth for newcomers while others wait, and no more', () => {
    const { rooms, place } = of(20);
    const found = Array.from({ length: 20 }, () => place().take('found')).filter(Boolean).length;
    rooms.looked(true);
    const newcomers = Array.from({ length: 3 }, place);
    expect([found, ...newcomers.map((each) => each.take())]).toEqual([18, true, true, false]);
    newcomers[0]!.leave();
    expect([place().take('found'), place().take(), place().take()]).toEqual([false, true, false]);
  });

  it('is all there for the waiting ones when newcomers have had their tenth, and for newcomers when nobody waits', () => {
    const { place } = of(20);
    const newcomers = Array.from({ length: 18 }, place);
    expect(newcomers.every((each) => each.take())).toBe(true);
    expect([place().take('found'), place().take('found'), place().take('found')]).toEqual([true, true, false]);
  });

  it('lets whoever comes back in before anybody new, first come, first served', async () => {
    const { rooms, seen, place } = of(1);
    const [parent, other, child, late] = [place(), place(), place(), place()];
    parent.take();
    parent.leave();
    child.take();
    const back = parent.enter();
    const second = other.enter();
    expect(await settled(back)).toBe(false);
    child.leave();
    expect(await settled(back)).toBe(true);
    expect(late.take()).toBe(false);
    parent.leave();
    expect(await settled(second)).toBe(true);
    // Once for the parent's first leave, when nobody waited.
    expect([rooms.working, seen.freed]).toEqual([1, 1]);
  });

  it('forgets a turn that has ended while it waited to come back', async () => {
    const { rooms, place } = of(1);
    const [waiting, busy] = [place(), place()];
    busy.take();
    const back = waiting.enter();
    waiting.settle();
    busy.leave();
    expect([await settled(back), rooms.working, rooms.hasPlace('named')]).toEqual([false, 0, true]);
  });

  it('of a pod that leaves takes nobody new, and lets everybody back in who waits', async () => {
    const { rooms, seen, place } = of(1);
    const [waiting, busy, late] = [place(), place(), place()];
    busy.take();
    const back = waiting.enter();
    seen.open = false;
    rooms.admitReturning();
    expect([await settled(back), late.take()]).toEqual([true, false]);
  });
});
