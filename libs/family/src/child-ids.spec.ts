import { describe, expect, it } from '@jest/globals';
import { isId } from '#protocol';
import { childTurnId, isReservedTurnId, reportTurnId } from './child-ids.js';

const turn = { turnId: 't', generation: 1 };

describe('the turnId of a child', () => {
  it('is the same for the same call of the same generation', () => {
    expect(childTurnId(turn, 'call')).toBe(childTurnId({ ...turn }, 'call'));
  });

  it('differs with the turn, its generation and the call', () => {
    const ids = [
      childTurnId(turn, 'call'),
      childTurnId({ ...turn, turnId: 'u' }, 'call'),
      childTurnId({ ...turn, generation: 2 }, 'call'),
      childTurnId(turn, 'other'),
      childTurnId({ turnId: 't', generation: 11 }, 'call'),
    ];
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('is an id, and so is the id of its report', () => {
    const child = childTurnId({ turnId: 'x'.repeat(128), generation: 1_000 }, 'y'.repeat(128));
    expect(child).toMatch(/^c~[0-9a-f]{40}$/);
    expect(reportTurnId(child)).toBe(`r~${child.slice(2)}`);
    expect([child, reportTurnId(child)].every(isId)).toBe(true);
  });

  it('is the runtime’s own, and so is that of its report', () => {
    const child = childTurnId(turn, 'call');
    expect([child, reportTurnId(child)].map(isReservedTurnId)).toEqual([true, true]);
  });

  it.each(['c~', 'r~1', `c~${'0'.repeat(39)}`, `c~${'0'.repeat(41)}`, `c~${'G'.repeat(40)}`, `d~${'0'.repeat(40)}`])(
    '%s is left to callers',
    (id) => {
      expect(isReservedTurnId(id)).toBe(false);
    },
  );
});
