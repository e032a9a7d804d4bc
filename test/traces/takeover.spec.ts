import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { SessionKey } from '#protocol';
import { UnavailableError } from '#platform';
import { SeededRandom } from '../simulation/seeded-random.js';
import { envelopes, type Line } from './ground/behind.js';
import { Ground, GROUNDS } from './ground/ground.js';
import type { TracePod } from './ground/trace-pod.js';
import { eachOnce, Watch, watchedAgent } from './ground/watch.js';

/** How many older states of the lists are tried, each in a session of its own. */
const OLDER_STATES = 40;

describe.each(GROUNDS)('on the %s servers', (kind) => {
  let ground: Ground;
  let session: SessionKey;
  let watch: Watch;
  let poster: TracePod;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    ground = await Ground.open(kind, watchedAgent);
  });
  afterEach(() => ground.clear());
  afterAll(() => ground.close());

  const named = (turnId: string): string => `${session.sessionId}-${turnId}`;
  const line = (...turnIds: string[]): string[] => envelopes(...turnIds.map(named));

  async function begin(): Promise<void> {
    session = ground.session();
    watch = new Watch(ground, session);
    poster = await ground.pod('p', { actors: false });
  }

  async function post(...turnIds: string[]): Promise<void> {
    for (const turnId of turnIds) await poster.post(session, named(turnId));
  }

  /**
   * A pod has died in the middle of m1's second tool, with m2 and m3 in line; its lease has run out. Answers the pod that
   * is to take over.
   */
  async function stageDeath(): Promise<TracePod> {
    await begin();
    const first = await ground.pod('a');
    const acting = first.points.hold(`step tool:${named('m1')}-b`);
    await post('m1', 'm2', 'm3');
    await acting.reached;
    // The other tool's result is recorded.
    const second = await ground.pod('b');
    await ground.quiet();
    first.die();
    expect(await ground.behind.look(session)).toMatchObject({ processing: line('m1'), pending: line('m2', 'm3') });
    await ground.behind.loseLock(session);
    second.points.passed.splice(0);
    return second;
  }

  /** Lets the pods look until all has ended; how often that took. */
  async function finish(...pods: TracePod[]): Promise<number> {
    for (let sweeps = 0; ; sweeps++) {
      if (await watch.isDone()) return sweeps;
      if (sweeps > 10) throw new Error(`not done: ${JSON.stringify(await watch.events())}`);
      await ground.behind.letReconcile(session);
      await ground.sweep(...pods);
    }
  }

  async function eachInOrder(...turnIds: string[]): Promise<void> {
    const events = await watch.events();
    const accepted = events.filter(({ type }) => type === 'message.accepted').map(({ turnId }) => turnId);
    expect(accepted).toEqual(turnIds.map(named));
    expect(await watch.turnsOf('turn.started')).toEqual(accepted);
    expect(await watch.turnsOf('turn.completed')).toEqual(accepted);
  }

  /** The places that a pod passes in a takeover, from its acquiring to its first append. */
  async function placesOfTakeover(): Promise<string[]> {
    const second = await stageDeath();
    const done = second.points.hold('append.before');
    second.supervisor.offer(session);
    await done.reached;
    await ground.quiet();
    await ground.clear();
    const passed = second.points.passed.filter((name) => name !== 'hears');
    return passed.slice(0, passed.indexOf('append.before') + 1);
  }

  describe('a pod that dies in the middle of a takeover', () => {
    it('leaves everything to the next one, at whatever place it dies, while messages go on coming', async () => {
      const places = await placesOfTakeover();
      expect(places).toEqual(
        expect.arrayContaining(['actor.acquiring', 'locks.acquire answers', 'queue.take answers']),
      );
      expect(places).toEqual(
        expect.arrayContaining(['gate3.before', 'gate3.committed', 'tool.checked', 'append.before']),
      );
      for (let nth = 1; nth <= places.length; nth++) await dieAt(nth);
      process.stdout.write(`${kind}: died at each of ${places.length} places of a takeover\n`);
    });

    async function dieAt(nth: number): Promise<void> {
      const second = await stageDeath();
      const pushing: Promise<void>[] = [];
      second.points.meet = ({ name }) => {
        if (name === 'hears') return undefined;
        pushing.push(post(`x${pushing.length}`));
        if (pushing.length === nth) second.die();
        return undefined;
      };
      second.supervisor.offer(session);
      await ground.quiet();
      await Promise.all(pushing);
      expect(second.points.isDead).toBe(true);
      await ground.behind.loseLock(session);
      const third = await ground.pod('c');
      await finish(third);
      const pushed = await watch.turnsOf('message.accepted');
      expect(pushed).toHaveLength(3 + nth);
      expect(await watch.turnsOf('turn.started')).toEqual(pushed);
      expect(await watch.turnsOf('turn.completed')).toEqual(pushed);
      for (const turnId of pushed.slice(1)) expect(watch.begun(turnId!)).toEqual(eachOnce(turnId!));
      // What m1 had recorded before is not run again; the tool under way may be, by every owner that came to it.
      expect(watch.begun(named('m1'))).toMatchObject({ 'model:1': 1, [`tool:${named('m1')}-a`]: 1, 'model:2': 1 });
      await ground.clear();
    }
  });

  it('a takeover that finds the ledger away, at whichever of its calls, is made again, and nothing is left behind', async () => {
    const places = await placesOfTakeover();
    const calls = places.flatMap((name, at) => (/^database\.\w+$/.test(name) ? [at + 1] : []));
    expect(calls.length).toBeGreaterThan(2);
    for (const call of calls) {
      const second = await stageDeath();
      let passed = 0;
      second.points.meet = ({ name }) => {
        if (name === 'hears' || ++passed !== call) return undefined;
        return Promise.reject(new UnavailableError('database', 'the ledger is away'));
      };
      second.supervisor.offer(session);
      await ground.quiet();
      expect(passed).toBeGreaterThanOrEqual(call);
      // Whoever could not acquire or claim waits for a sweep; whoever has claimed waits for the ledger.
      await second.clock.advance(250);
      await ground.quiet();
      await finish(second);
      await eachInOrder('m1', 'm2', 'm3');
      expect(watch.begun(named('m1'))).toMatchObject({ 'model:1': 1, [`tool:${named('m1')}-a`]: 1, 'model:2': 1 });
      await ground.clear();
    }
  });

  describe('a take', () => {
    it('whose replies are lost again and again takes one message, while others are queued', async () => {
      await begin();
      const owner = await ground.pod('a');
      for (let lost = 0; lost < 3; lost++) {
        owner.points.fail('queue.take answers', new UnavailableError('redis', 'the reply was lost'));
      }
      await post('m1');
      for (const turnId of ['m2', 'm3', 'm4']) {
        await ground.quiet();
        await post(turnId);
        expect((await ground.behind.look(session)).processing).toEqual(line('m1'));
        await owner.clock.advance(250);
      }
      await ground.quiet();
      expect(await watch.isDone()).toBe(true);
      await eachInOrder('m1', 'm2', 'm3', 'm4');
      expect(watch.begun(named('m1'))).toEqual(eachOnce(named('m1')));
    });

    it('whose reply was lost with its pod is made again by the next owner', async () => {
      await begin();
      const owner = await ground.pod('a');
      owner.points.at('queue.take answers', () => {
        owner.die();
        return undefined;
      });
      await post('m1', 'm2');
      await ground.quiet();
      await ground.behind.loseLock(session);
      const next = await ground.pod('b');
      await finish(next);
      await eachInOrder('m1', 'm2');
      expect(await watch.turnsOf('turn.resumed')).toEqual([]);
    });
  });

  describe('lists that a failover has set back', () => {
    /** m1 and m2 are over, m3 runs, m4 and m5 wait. */
    const NOW = { processing: ['m3'], pending: ['m4', 'm5'] };
    const CASES: [string, { processing: string[]; pending: string[] }][] = [
      ['have lost pushes', { processing: ['m3'], pending: [] }],
      ['have lost everything', { processing: [], pending: [] }],
      ['hold completed messages again', { processing: ['m1'], pending: ['m2', 'm3', 'm4', 'm5'] }],
      ['are in a wrong order', { processing: ['m5'], pending: ['m4', 'm3'] }],
      ['hold messages in both', { processing: ['m4', 'm3'], pending: ['m3', 'm5', 'm4', 'm4'] }],
      ['hold nothing but what is over', { processing: ['m2'], pending: ['m1', 'm2'] }],
    ];
    const WHEN = [
      'while the turn goes on',
      'and its owner dies',
      'and the lock is lost beside a living owner',
    ] as const;

    it.each(CASES.flatMap(([what, older]) => WHEN.map((when) => [what, when, older] as const)))(
      'and %s, %s: every message runs once, in the order of queueSeq',
      async (_, when, older) => setBack(when, older),
    );

    it(`in ${OLDER_STATES} random ways: every message runs once, in the order of queueSeq`, async () => {
      const random = new SeededRandom(7);
      for (let nth = 0; nth < OLDER_STATES; nth++) {
        const all = ['m1', 'm2', 'm3', 'm4', 'm5'];
        const some = (most: number): string[] => Array.from({ length: random.below(most + 1) }, () => random.pick(all));
        await setBack(random.pick(WHEN), { processing: some(2), pending: some(6) }, random.chance(0.5));
        await ground.clear();
      }
    });

    async function setBack(
      when: (typeof WHEN)[number],
      older: { processing: string[]; pending: string[] },
      forgets = true,
    ): Promise<void> {
      await begin();
      const owner = await ground.pod('a');
      await post('m1', 'm2');
      await ground.quiet();
      const other = await ground.pod('b');
      const acting = owner.points.hold('step model:2');
      await post('m3', 'm4', 'm5');
      await acting.reached;
      await ground.quiet();
      expect(await ground.behind.look(session)).toMatchObject(asLine(NOW));
      if (when === 'and its owner dies') owner.die();
      const lock = when === 'while the turn goes on' ? {} : { lock: null };
      await ground.behind.setBack(session, { ...asLine(older), ...lock });
      if (forgets) await ground.behind.forget(session, ['m1', 'm2', 'm3', 'm4', 'm5'].map(named));
      await post('m6');
      await ground.quiet();
      acting.release();
      await ground.quiet();
      await finish(...(owner.points.isDead ? [other] : [owner, other]));
      await eachInOrder('m1', 'm2', 'm3', 'm4', 'm5', 'm6');
      for (const turnId of ['m1', 'm2', 'm4', 'm5', 'm6'].map(named))
        expect(watch.begun(turnId)).toEqual(eachOnce(turnId));
      // Its last word was being said: a new owner says it again, unless the old one was not disturbed.
      const lastWords = when === 'while the turn goes on' ? 1 : 2;
      expect(watch.begun(named('m3'))).toEqual({ ...eachOnce(named('m3')), 'model:2': lastWords });
      // Nothing of it is left in line.
      await ground.sweep(...(owner.points.isDead ? [other] : [owner, other]));
      expect(await ground.behind.look(session)).toMatchObject({ pending: [], processing: [] });
    }

    function asLine({ processing, pending }: { processing: string[]; pending: string[] }): Partial<Line> {
      return { processing: line(...processing), pending: line(...pending) };
    }
  });
});
