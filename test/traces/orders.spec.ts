import { Logger } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Ground, GROUNDS, type GroundKind } from './ground/ground.js';
import { HeldAgent, OrderStage, type Play } from './ground/order-stage.js';
import { type Operation, OPERATIONS } from './ground/turn-model.js';

/** How far the turn has come before the order begins. */
const BEGINNINGS: Record<string, Operation[]> = {
  unborn: [],
  queued: ['enqueue'],
  running: ['enqueue', 'start'],
  ended: ['enqueue', 'start', 'finish'],
};

/** Turns that are played side by side, each in a partition of its own. */
const AT_ONCE = 64;

interface Case {
  beginning: string;
  name: string;
  order: readonly Operation[];
}

/** Every order of so many operations, the same one several times included. */
function ordersOf(length: number): Operation[][] {
  if (length === 0) return [[]];
  return ordersOf(length - 1).flatMap((order) => OPERATIONS.map((operation) => [...order, operation]));
}

/** All pairs and triples; over real servers, which take ten times as long, triples of a new turn only. */
function casesOf(kind: GroundKind): Case[] {
  return Object.entries(BEGINNINGS).flatMap(([beginning, before]) => {
    const hasTriples = kind === 'embedded' || beginning === 'unborn';
    const orders = [...ordersOf(2), ...(hasTriples ? ordersOf(3) : [])];
    return orders.map((order) => ({ beginning, name: order.join(', '), order: [...before, ...order] }));
  });
}

/**
 * One turn, and all that can happen to it in every order: what the ledger then says and what callers are told is compared
 * with a model after each operation, when all has come to rest, and when everything was said again (I5, I7, I8).
 */
describe.each(GROUNDS)('on the %s servers', (kind) => {
  const cases = casesOf(kind);
  const plays = new Map<Case, Play>();
  let ground: Ground;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    const agent = new HeldAgent();
    ground = await Ground.open(kind, () => agent);
    const stage = await OrderStage.open(ground, agent);
    for (let from = 0; from < cases.length; from += AT_ONCE) {
      const some = cases.slice(from, from + AT_ONCE);
      const played = await stage.play(some.map(({ order }) => order));
      some.forEach((each, at) => plays.set(each, played[at]!));
    }
  }, 60_000);
  afterAll(() => ground.close());

  describe.each(Object.keys(BEGINNINGS))('a turn that is %s keeps all promises:', (beginning) => {
    it.each(cases.filter((each) => each.beginning === beginning))('$name', (each) => {
      const { told, complaints } = plays.get(each)!;
      for (const { when, seen, expected } of told) expect({ when, ...seen }).toEqual({ when, ...expected });
      expect(complaints).toEqual([]);
    });
  });
});
