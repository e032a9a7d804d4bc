import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { SessionKey, SRef, TurnState } from '#protocol';
import { TurnStage } from '#test-kit';
import type { TurnRow } from '#turn-lifecycle';
import { reportTurnId } from './child-ids.js';
import { Family, type Reported } from './family.js';
import { Heads } from './heads.js';

const parentRef: SRef = { sessionId: 's', turnId: 'p', generation: 1 };
const kid: SessionKey = { account: 'acc', sessionId: 'kid' };
const via = { turnId: 'p', generation: 1 };

describe('a family', () => {
  let stage: TurnStage;
  let family: Family;
  beforeEach(async () => {
    stage = await TurnStage.open();
    family = new Family(stage.turns, stage.ledger, stage.randomness);
    await stage.accept('p');
  });
  afterEach(() => stage.close());

  /** A turn below another one, queued in a session of its own. */
  async function child(turnId: string, path = `p/${turnId}`): Promise<TurnRow> {
    return stage.database.transaction(async (tx) => {
      const { nextSeq, nowMs } = await stage.ledger.openHead(tx, kid);
      const said = { mode: 'enqueue', kind: 'user', initiator: 'ann', metadata: null, digest: 'd' } as const;
      const turn = stage.turns.insert(
        tx,
        { ...kid, turnId, parent: parentRef, path, ...said },
        { seq: nextSeq, nowMs },
      );
      const head = await stage.ledger.openHead(tx, kid);
      const data = { content: 'go', mode: said.mode, kind: said.kind, initiator: 'ann' };
      stage.ledger.append(tx, head, {
        ...{ id: stage.randomness.id(), writer: { kind: 'producer' } },
        events: [{ type: 'message.accepted', turn: { turnId, generation: 1 }, data }],
      });
      return turn;
    });
  }

  async function move(turnId: string, to: TurnState): Promise<void> {
    const moves = { running: ['start'], stop_requested: ['start', 'stop'], stopped: ['stop'] } as const;
    await stage.database.transaction(async (tx) => {
      const row = (await stage.turns.lock(tx, 'acc', turnId))!;
      for (const each of moves[to as keyof typeof moves])
        stage.turns.move(tx, row, each, { nowMs: 1, stop: { by: 'x' } });
    });
  }

  const row = async (turnId: string): Promise<TurnRow> => (await stage.row(turnId))!;

  describe('above a turn', () => {
    it('is held from its root down', async () => {
      await child('c');
      await child('g', 'p/c/g');
      const rows = await stage.database.transaction((tx) => family.holdUnstopped(tx, 'acc', 'p/c/g'));
      expect(rows.map(({ turnId }) => turnId)).toEqual(['p', 'c', 'g']);
    });

    it.each(['stopped', 'stop_requested'] as const)('is not held when one of it is %s', async (state) => {
      await child('c');
      await move('p', state);
      const held = stage.database.transaction((tx) => family.holdUnstopped(tx, 'acc', 'p/c'));
      await expect(held).rejects.toMatchObject({ code: 'turn_stopped', facts: { turnId: 'p' } });
    });
  });

  describe('below a stopped turn', () => {
    it('ends where it waits, is told to stop where it runs, and is told once', async () => {
      await child('c1');
      await child('c2');
      await move('c2', 'running');
      await child('c3');
      await move('c3', 'stop_requested');
      const decided = await stage.database.transaction(async (tx) => {
        const below = await stage.turns.lockLiveBelow(tx, 'acc', 'p');
        const heads = await Heads.lock(tx, stage.ledger, below);
        return family.stopBelow(tx, heads, below, { by: 'ann', reason: 'enough', via });
      });
      expect(decided.map(({ ref, state }) => [ref.turnId, state])).toEqual([
        ['c1', 'stopped'],
        ['c2', 'stop_requested'],
      ]);
      expect(decided.flatMap(({ events }) => events.map(({ type, data }) => ({ type, data })))).toEqual([
        { type: 'turn.stopped', data: { by: 'ann', reason: 'enough', via, gate: 'stop' } },
        { type: 'turn.stop_requested', data: { by: 'ann', reason: 'enough', via } },
      ]);
      expect((await row('c1')).stop).toMatchObject({ by: 'ann', reason: 'enough', via });
      expect((await row('c3')).stop).toMatchObject({ by: 'x' });
    });
  });

  describe('hears of the end of a child', () => {
    let ended: TurnRow;
    beforeEach(async () => {
      ended = await child(`c~${'0'.repeat(40)}`);
    });

    async function report(parent: Partial<TurnRow> = {}, of: Partial<TurnRow> = {}): Promise<Reported | null> {
      const above = { ...(await row('p')), ...parent };
      return stage.database.transaction(async (tx) => {
        const heads = await Heads.lock(tx, stage.ledger, [above, ended]);
        return family.report(tx, heads, above, { ...ended, ...of }, { state: 'completed', text: 'found it' });
      });
    }

    it.each(['queued', 'running', 'completed', 'failed'] as const)('when it is %s itself', async (state) => {
      const reported = (await report({ state }))!;
      const turnId = reportTurnId(ended.turnId);
      expect(reported.turn).toMatchObject({
        ...{ sessionId: 's', turnId, path: `p/${turnId}`, mode: 'steer', kind: 'report', parent: parentRef },
        ...{ state: 'queued', generation: 1 },
      });
      expect(reported.events.map(({ type, turnId: of }) => [type, of])).toEqual([
        ['message.accepted', turnId],
        ['child.reported', 'p'],
      ]);
      const from = { sessionId: 'kid', turnId: ended.turnId, generation: 1 };
      expect(reported.events[0]!.data).toMatchObject({ content: `Sub-agent kid/${ended.turnId} completed.\nfound it` });
      expect(reported.events[1]!.data).toEqual({ child: from, state: 'completed', text: 'found it' });
      expect((await row(turnId)).queueSeq).toBe(reported.events[0]!.seq);
    });

    it('once', async () => {
      expect(await report()).not.toBeNull();
      expect(await report()).toBeNull();
    });

    it('also when the child was stopped by itself', async () => {
      expect(await report({}, { stop: { by: 'ann', atMs: 1 } })).not.toBeNull();
    });

    const DEAF: [string, Partial<TurnRow>, Partial<TurnRow>][] = [
      ['it is stopped', { state: 'stopped' }, {}],
      ['it is to stop', { state: 'stop_requested' }, {}],
      ['it is in another generation', { generation: 2 }, {}],
      ['the child was stopped through it', {}, { stop: { by: 'ann', via, atMs: 1 } }],
      ['what ended is a report', {}, { kind: 'report' }],
    ];
    it.each(DEAF)('but not when %s', async (_, parent, of) => {
      expect(await report(parent, of)).toBeNull();
      expect(await stage.row(reportTurnId(ended.turnId))).toBeNull();
    });

    it('under its lock, which a report does not need', async () => {
      const root = await row('p');
      await stage.database.transaction(async (tx) => {
        expect((await family.holdParent(tx, ended))?.turnId).toBe('p');
        expect(await family.holdParent(tx, { ...ended, kind: 'report' })).toBeNull();
        expect(await family.holdParent(tx, root)).toBeNull();
        expect(await family.holdParent(tx, null)).toBeNull();
      });
    });
  });
});
