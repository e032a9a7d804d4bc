import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { FollowUps } from './ground/follow-ups.js';
import { Ground, GROUNDS } from './ground/ground.js';
import { InterruptedDatabase } from './ground/interrupted-database.js';
import type { Hold } from './ground/points.js';
import type { TracePod } from './ground/trace-pod.js';
import { readingAgent } from './ground/watch.js';

/** By then the rows of turns are locked. */
const LOCKS_SESSION = /FROM session .*FOR UPDATE/s;
const STEER = { mode: 'steer' } as const;

/** Where the owner passes from the end of one turn to the start of the next. */
const BETWEEN_TURNS = [
  ...['finish.before', 'database.together', 'database.together answers', 'finish.committed', 'actor.served'],
  ...['queue.complete', 'queue.complete answers', 'actor.taken', 'gate3.before'],
];

/** What is said to a session while it works, trace by trace. Messages come in at the door; `first` and `second` own. */
describe.each(GROUNDS)('on the %s servers', (kind) => {
  let ground: Ground;
  let talk: FollowUps;
  let door: TracePod;
  let first: TracePod;

  beforeAll(async () => {
    Logger.overrideLogger(false);
    ground = await Ground.open(kind, readingAgent);
  });
  beforeEach(async () => {
    door = await ground.pod('door', { actors: false });
    first = await ground.pod('a');
    talk = new FollowUps(ground, door);
  });
  afterEach(() => ground.clear());
  afterAll(() => ground.close());

  /** The owner dies, and its lease runs out; who comes after it. */
  async function successor(owner: TracePod): Promise<TracePod> {
    owner.die();
    await ground.quiet();
    await ground.behind.loseLock(talk.session);
    return ground.pod('b');
  }

  function dieAt(pod: TracePod, place: string): void {
    pod.points.at(place, () => {
      pod.die();
      return undefined;
    });
  }

  const refused = (code: string) => expect.objectContaining({ code }) as unknown as Error;

  describe('a steering message', () => {
    it('joins the turn that runs at its next model step, once, and never runs by itself', async () => {
      const held = await talk.running('t', first);
      await talk.say('m', { mode: 'steer' });
      held.release();
      await talk.finish(first);
      expect(await talk.lives()).toEqual(['turn.started t', 'turn.absorbed m', 'turn.completed t']);
      expect(await talk.row('m')).toMatchObject({ state: 'completed', absorbedBy: { turnId: talk.named('t') } });
      expect(talk.heardBy('t', 'model:1')).toEqual(['say t']);
      expect(talk.inputOf('t', 'model:2').map(({ role }) => role)).toEqual([
        'user',
        'assistant',
        'tool',
        'tool',
        'user',
      ]);
      expect(talk.heardBy('t', 'model:2')).toEqual(['say t', 'say m']);
      await talk.eachOnce(first);
    });

    it.each(BETWEEN_TURNS)('[F1] left over when the turn finishes is not lost by a crash at %s', async (place) => {
      const held = await talk.running('t', first, 'model:2');
      await talk.say('m', { mode: 'steer' });
      await ground.quiet();
      dieAt(first, place);
      held.release();
      await ground.quiet();
      expect(first.points.isDead).toBe(true);
      const second = await successor(first);
      await talk.finish(second);
      const ran = (await talk.lives()).filter((life) => life.endsWith(' m'));
      // A turn that had not finished says its last word again, and takes the message in before.
      if (ran[0] === 'turn.absorbed m') expect(['finish.before', 'database.together']).toContain(place);
      else expect(ran).toEqual(['turn.started m', 'turn.completed m']);
      await talk.eachOnce(second);
    });

    it.each(['absorb.before', 'database.transaction', 'database.transaction answers', 'absorb.committed'])(
      '[Fx1] is not taken in twice when the owner dies at %s',
      async (place) => {
        const held = await talk.running('t', first);
        await talk.say('m', { mode: 'steer' });
        dieAt(first, place);
        held.release();
        await ground.quiet();
        expect(first.points.isDead).toBe(true);
        const second = await successor(first);
        await talk.finish(second);
        expect(await talk.turnsOf('turn.absorbed')).toEqual(['m']);
        expect(talk.heardBy('t', 'model:2')).toEqual(['say t', 'say m']);
        await talk.eachOnce(second);
      },
    );

    it('[H5] is not taken in by a turn that is to stop: it runs by itself', async () => {
      const held = await talk.running('t', first);
      await talk.say('m', { mode: 'steer' });
      const absorbing = first.points.hold('database.transaction');
      held.release();
      await absorbing.reached;
      await talk.stop('t');
      absorbing.release();
      await talk.finish(first);
      expect(await talk.lives()).toEqual([
        ...['turn.started t', 'turn.stop_requested t', 'turn.stopped t', 'turn.started m', 'turn.completed m'],
      ]);
      await talk.eachOnce(first);
    });

    it('that is stopped while it is being taken in reaches the model or is stopped, not both', async () => {
      for (const place of [
        'absorb.before',
        'database.transaction',
        'database.transaction answers',
        'absorb.committed',
      ]) {
        talk = new FollowUps(ground, door);
        const held = await talk.running('t', first);
        await talk.say('m', { mode: 'steer' });
        const absorbing = first.points.hold(place);
        held.release();
        await absorbing.reached;
        const { already } = await talk.stop('m');
        absorbing.release();
        await talk.finish(first);
        expect(talk.heardBy('t')).toEqual(already ? ['say t', 'say m'] : ['say t']);
        expect(await talk.row('m')).toMatchObject({ state: already ? 'completed' : 'stopped' });
        await talk.eachOnce(first);
      }
    });

    it('stays in the input of the next generation when the turn is retried', async () => {
      const held = await talk.running('t', first);
      await talk.say('m', { mode: 'steer' });
      held.release();
      await talk.finish(first);
      await talk.retry('t');
      await talk.finish(first);
      expect(await talk.turnsOf('turn.absorbed')).toEqual(['m']);
      expect(talk.heardBy('t', 'model:1')).toEqual(['say t', 'say m']);
    });
  });

  describe('a message that interrupts', () => {
    it('[F2] does not stop its own turn when it is sent again', async () => {
      const held = await talk.running('t', first);
      const own = first.points.hold('step model:1');
      const answer = await talk.say('m', { mode: 'interrupt' });
      held.release();
      await own.reached;
      await ground.quiet();
      const before = await talk.watch.events();
      const second = await ground.pod('b', { actors: false });
      for (const pod of [door, second, first]) {
        expect(await talk.say('m', { mode: 'interrupt', pod })).toEqual({ ...answer, replayed: true });
      }
      expect(await talk.watch.events()).toEqual(before);
      own.release();
      await talk.finish(first);
      expect(await talk.lives()).toEqual([
        ...['turn.started t', 'turn.stop_requested t', 'turn.stopped t', 'turn.started m', 'turn.completed m'],
      ]);
      await talk.eachOnce(first);
    });

    const [ANN, BOB] = ['ann', 'bob'];

    it.each([ANN, BOB])(
      '[H1] stops who runs when it is accepted, not who ran when it looked, be it of %s',
      async (by) => {
        const held = await talk.running('t', first, 'model:2', { by });
        await talk.say('u');
        const next = first.points.hold('step model:1');
        const [posting, looked] = await lookAndWait('m');
        held.release();
        await next.reached;
        looked.release();
        await posting;
        next.release();
        await talk.finish(first);
        expect(await talk.turnsOf('turn.stop_requested')).toEqual(['u']);
        expect(await talk.turnsOf('turn.stopped')).toEqual(['u']);
        expect(await talk.turnsOf('turn.completed')).toEqual(['t', 'm']);
        await talk.eachOnce(first);
      },
    );

    it.each([ANN, BOB])('[H1] stops nobody when the turn that it saw, of %s, has ended by then', async (by) => {
      const held = await talk.running('t', first, 'model:2', { by });
      const [posting, looked] = await lookAndWait('m');
      held.release();
      await ground.quiet();
      looked.release();
      await posting;
      await talk.finish(first);
      expect(await talk.turnsOf('turn.stop_requested')).toEqual([]);
      expect(await talk.turnsOf('turn.completed')).toEqual(['t', 'm']);
      await talk.eachOnce(first);
    });

    it('[H1] stops a turn that has begun since it saw none', async () => {
      const [posting, looked] = await lookAndWait('m');
      const held = await talk.running('t', first);
      looked.release();
      await posting;
      held.release();
      await talk.finish(first);
      expect(await talk.turnsOf('turn.stopped')).toEqual(['t']);
      await talk.eachOnce(first);
    });

    /** A message that interrupts has seen who runs, and is held before its transaction. */
    async function lookAndWait(turn: string): Promise<[Promise<unknown>, Hold]> {
      const looked = door.points.hold('database.transaction');
      const posting = talk.say(turn, { mode: 'interrupt' });
      await looked.reached;
      return [posting, looked];
    }

    it.each(['both have looked', 'one after the other', 'at once'])(
      'beside another one, %s: one stop, the right turn, and both run in their order',
      async (how) => {
        const other = await ground.pod('other', { actors: false });
        const held = await talk.running('t', first);
        const ending = first.points.hold('finish.before');
        const [m, n] = [
          () => talk.say('m', { mode: 'interrupt', pod: door }),
          () => talk.say('n', { mode: 'interrupt', pod: other }),
        ] as const;
        if (how === 'both have looked') {
          const waits = [door, other].map((pod) => pod.points.hold('database.transaction'));
          const answers = [m(), n()];
          await Promise.all(waits.map(({ reached }) => reached));
          for (const wait of waits) wait.release();
          await Promise.all(answers);
        } else if (how === 'at once') {
          await Promise.all([m(), n()]);
        } else {
          await m();
          await n();
        }
        await talk.say('m', { mode: 'interrupt', pod: other });
        ending.release();
        held.release();
        await talk.finish(first);
        await talk.say('n', { mode: 'interrupt', pod: door });
        const inOrder = (await talk.turnsOf('message.accepted')).slice(1);
        expect(inOrder.toSorted()).toEqual(['m', 'n']);
        expect(await talk.lives()).toEqual([
          ...['turn.started t', 'turn.stop_requested t', 'turn.stopped t'],
          ...inOrder.flatMap((turn) => [`turn.started ${turn}`, `turn.completed ${turn}`]),
        ]);
        await talk.eachOnce(first);
      },
    );

    it('and races the end of the turn that runs stops it or finds it ended, and nobody else', async () => {
      const asked: string[] = [];
      const rounds = kind === 'real' ? 24 : 12;
      for (let round = 0; round < rounds; round++) {
        talk = new FollowUps(ground, door);
        const held = await talk.running('t', first, 'model:2');
        await talk.say('u');
        const finishing = first.points.hold('finish.before');
        held.release();
        await finishing.reached;
        const [posting, looked] = await lookAndWait('m');
        const inOrder = round % 2 === 0 ? [finishing, looked] : [looked, finishing];
        inOrder[0]!.release();
        if (round % 4 === 1) await posting;
        for (let ticks = round % 10; ticks > 0; ticks--) await new Promise((resolve) => setImmediate(resolve));
        inOrder[1]!.release();
        const [answer] = await Promise.all([posting, talk.say('n', { mode: 'interrupt', pod: first })]);
        expect(await talk.say('m', { mode: 'interrupt' })).toEqual({ ...(answer as object), replayed: true });
        await talk.finish(first);
        const stops = await talk.turnsOf('turn.stop_requested');
        expect(stops).toEqual([...new Set(stops)]);
        asked.push(...stops);
        await talk.eachOnce(first);
      }
      const of = (turn: string): number => asked.filter((each) => each === turn).length;
      process.stdout.write(
        `${kind}: ${rounds} races of two interrupts with a turn's end stopped it ${of('t')} times and the next one ${of('u')} times\n`,
      );
      expect(of('t')).toBeGreaterThan(0);
      expect(of('t')).toBeLessThan(rounds);
    });

    it("and meets another user's turn is refused and writes nothing; an admin's is not", async () => {
      const held = first.points.hold('step model:1');
      await talk.say('t', { by: 'bob' });
      await held.reached;
      await ground.quiet();
      const before = await talk.watch.events();
      await expect(talk.say('m', { mode: 'interrupt' })).rejects.toEqual(refused('turn_mismatch'));
      expect(await talk.watch.events()).toEqual(before);
      expect(await talk.row('m')).toBeNull();
      await talk.say('n', { mode: 'interrupt', by: 'root', isAdmin: true });
      held.release();
      await talk.finish(first);
      expect(await talk.row('t')).toMatchObject({ state: 'stopped', stop: { by: 'root' } });
      // Nobody else's turn runs any more: what was refused is accepted now.
      await talk.say('m', { mode: 'interrupt' });
      await talk.finish(first);
      await talk.eachOnce(first);
    });
  });

  describe('an edit', () => {
    it('[H2] leaves the first answer to the POST as it was', async () => {
      const held = await talk.running('t', first);
      const answer = await talk.say('m');
      await talk.edit('m', 'new m');
      expect(await talk.say('m')).toEqual({ ...answer, replayed: true });
      await expect(talk.say('m', { content: 'new m' })).rejects.toEqual(refused('turn_mismatch'));
      held.release();
      await talk.finish(first);
      expect(await talk.say('m')).toEqual({ ...answer, replayed: true });
      expect(talk.heardBy('m')).toEqual(['say t', 'new m']);
      await talk.eachOnce(first);
    });

    it.each(['steer', 'enqueue'] as const)(
      '[H3] of a message of mode %s is answered again when the message has been taken up',
      async (mode) => {
        const held = await talk.running('t', first);
        await talk.say('m', { mode });
        await talk.edit('m', 'new m');
        const taken = first.points.hold(mode === 'steer' ? 'absorb.committed' : 'gate3.committed');
        held.release();
        await taken.reached;
        const before = await talk.watch.events();
        expect(await talk.edit('m', 'new m')).toMatchObject({ state: mode === 'steer' ? 'completed' : 'running' });
        await expect(talk.edit('m', 'newest m')).rejects.toEqual(refused('turn_ended'));
        expect(await talk.watch.events()).toEqual(before);
        taken.release();
        await talk.finish(first);
        expect(await talk.edit('m', 'new m')).toMatchObject({ state: 'completed' });
        expect(talk.heardBy(mode === 'steer' ? 't' : 'm')).toEqual(['say t', 'new m']);
        await talk.eachOnce(first);
      },
    );

    const BEFORE_START = [
      'finish.committed',
      'queue.complete answers',
      'actor.taken',
      'gate3.before',
      'database.together',
    ];
    const BEHIND_START = [
      'database.together answers',
      'gate3.committed',
      'step.before',
      'step model:1',
      'append.before',
    ];

    it.each([...BEFORE_START, ...BEHIND_START])(
      '[H4] at %s is what the model is given, or is refused: never a mixture',
      async (place) => {
        const held = await talk.running('t', first, 'model:2');
        await talk.say('m');
        const finished = first.points.hold('finish.committed');
        held.release();
        await finished.reached;
        const at = place === 'finish.committed' ? finished : first.points.hold(place);
        if (at !== finished) finished.release();
        await at.reached;
        const edited = await talk.edit('m', 'new m').then(
          () => true,
          (error: unknown) => {
            expect(error).toEqual(refused('turn_ended'));
            return false;
          },
        );
        expect(edited).toBe(BEFORE_START.includes(place));
        at.release();
        await talk.finish(first);
        for (const { turnId, input } of talk.watch.inputs) {
          if (turnId === talk.named('m')) expect(input.at(0)).toMatchObject({ content: 'say t' });
        }
        for (const step of ['model:1', 'model:2']) {
          expect(talk.heardBy('m', step)).toEqual(['say t', edited ? 'new m' : 'say m']);
        }
        await talk.eachOnce(first);
      },
    );

    it.each([
      ['starts it', 'enqueue', 'model:2'],
      ['takes it in', 'steer', 'model:1'],
    ] as const)('[H4] that comes while the transaction that %s is under way is refused', async (_, mode, step) => {
      // In one process nobody comes while a transaction is under way.
      if (kind === 'embedded') return;
      let seen!: InterruptedDatabase;
      await first.stop();
      const owner = await ground.pod('c', {
        sees: (database) => (seen = new InterruptedDatabase(database, null, LOCKS_SESSION)),
      });
      const held = await talk.running('t', owner, step);
      await talk.say('m', { mode });
      const next = owner.points.hold(mode === 'steer' ? 'absorb.before' : 'gate3.before');
      held.release();
      await next.reached;
      let editing: Promise<unknown> | undefined;
      // It comes to the message's row, which is locked by now.
      seen.arm(async () => void (editing = talk.edit('m', 'new m').catch((error: unknown) => error)));
      next.release();
      await talk.finish(owner);
      expect(await editing).toEqual(refused('turn_ended'));
      expect(talk.heardBy(mode === 'steer' ? 't' : 'm')).toEqual(['say t', 'say m']);
      await talk.eachOnce(owner);
    });

    it('of a message that was retried leaves what others were told of its earlier generation as it was', async () => {
      await talk.say('m');
      await ground.quiet();
      const held = await talk.running('t', first);
      await talk.retry('m');
      await talk.edit('m', 'new m');
      held.release();
      await talk.finish(first);
      for (const step of ['model:1', 'model:2']) expect(talk.heardBy('t', step)).toEqual(['say m', 'say t']);
      expect(talk.heardBy('m', 'model:1')).toEqual(['say t', 'new m']);
    });

    it('of a message that was absorbed and is retried does not change what the turn that absorbed it was told', async () => {
      const held = await talk.running('t', first);
      await talk.say('m', { mode: 'steer' });
      const last = first.points.hold('step model:2');
      held.release();
      await last.reached;
      await talk.retry('m');
      await talk.edit('m', 'new m');
      last.release();
      await talk.finish(first);
      expect(talk.heardBy('m', 'model:1')).toEqual(['say t', 'say m', 'new m']);
    });
  });

  describe('at each place of a turn that takes a message in and ends, with another one behind it,', () => {
    /** What happens while the owner `a`, or whoever came after it, is held there. */
    const EVENTS: Record<string, () => Promise<unknown>> = {
      'a stop of the turn': () => talk.stop('t'),
      'a stop of the message': () => talk.stop('m'),
      'an edit of the message': () => talk.edit('m', 'new m').catch(orRefused),
      'an interrupting message': () => talk.say('i', { mode: 'interrupt' }),
      'another steering message': () => talk.say('n', STEER),
      'the death of the owner': () => (owner.die(), Promise.resolve()),
    };
    const DEATH = Object.keys(EVENTS).length - 1;
    const orRefused = (error: unknown): void => expect(error).toEqual(refused('turn_ended'));
    let owner: TracePod;

    /** Plays the turn; the owner is held at the how manieth passage of a place, if it comes there. */
    async function play([place, nth]: readonly [string, number], event: () => Promise<unknown>): Promise<void> {
      talk = new FollowUps(ground, door);
      const held = await talk.running('t', owner);
      await talk.say('m', STEER);
      await talk.say('o');
      await ground.quiet();
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      let [times, isReached] = [0, false];
      owner.points.meet = ({ name }) => {
        if (isReached || name !== place || ++times < nth) return undefined;
        isReached = true;
        return released;
      };
      held.release();
      await ground.quiet();
      await event();
      await ground.quiet();
      owner.points.meet = null;
      release();
      if (owner.points.isDead) owner = await successor(owner);
      await talk.finish(owner);
      await talk.eachOnce(owner);
    }

    /** Where the owner passes when nothing else happens, each with the how manieth of its name. */
    async function places(): Promise<[string, number][]> {
      const from = owner.points.passed.length;
      let to = 0;
      await play(['nowhere', 1], () => {
        to = owner.points.passed.length;
        return Promise.resolve();
      });
      const passed = owner.points.passed.slice(from, to);
      const names = passed.slice(passed.indexOf('step model:1') + 1);
      return names.flatMap((name, at): [string, number][] => {
        if (name.endsWith('.checked') || name === 'hears') return [];
        return [[name, names.slice(0, at + 1).filter((other) => other === name).length]];
      });
    }

    it.each(Object.keys(EVENTS))(
      '%s: all is used once, in order, and told once',
      async (what) => {
        owner = first;
        const all = await places();
        const own = Object.keys(EVENTS).indexOf(what);
        // Over real servers each place is played with one or two events; a death is played at all of them.
        const mine = all.filter((_, at) => kind === 'embedded' || own === DEATH || at % DEATH === own);
        for (const place of mine) await play(place, EVENTS[what]!);
        process.stdout.write(`${kind}: ${what} at ${mine.length} of ${all.length} places\n`);
        expect(all.length).toBeGreaterThan(40);
        expect(all.map(([name]) => name)).toEqual(
          expect.arrayContaining([
            'absorb.before',
            'absorb.committed',
            'finish.before',
            'queue.complete',
            'gate3.before',
          ]),
        );
      },
      60_000,
    );
  });

  describe('what arrives at once at one pod', () => {
    it('is accepted up to the limit and no further', async () => {
      const small = await ground.pod('small', { actors: false, settings: { queueMaxPending: 3 } });
      const held = await talk.running('t', first);
      const posts = Array.from({ length: 20 }, (_, at) =>
        talk.say(`m${at}`, { pod: small, ...(at % 5 === 0 && STEER) }),
      );
      const answers = await Promise.allSettled(posts);
      expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
      for (const answer of answers)
        if (answer.status === 'rejected') expect(answer.reason).toEqual(refused('queue_full'));
      expect(await talk.turnsOf('message.accepted')).toHaveLength(4);
      held.release();
      await talk.finish(first);
      await talk.eachOnce(first);
    });

    it('is counted when it is put in line, not before', async () => {
      const [small, other] = [
        await ground.pod('small', { actors: false, settings: { queueMaxPending: 2 } }),
        await ground.pod('other', { actors: false, settings: { queueMaxPending: 2 } }),
      ];
      const held = await talk.running('t', first);
      await talk.say('m');
      const waits = small.points.hold('database.together');
      const late = talk.say('late', { pod: small }).catch((error: unknown) => error);
      await waits.reached;
      await talk.say('n', { pod: other });
      waits.release();
      expect(await late).toEqual(refused('queue_full'));
      held.release();
      await talk.finish(first);
      await talk.eachOnce(first);
    });

    it('of mode reject is accepted once', async () => {
      const answers = await Promise.allSettled(
        Array.from({ length: 10 }, (_, at) => talk.say(`m${at}`, { mode: 'reject' })),
      );
      expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      for (const answer of answers)
        if (answer.status === 'rejected') expect(answer.reason).toEqual(refused('session_busy'));
      await talk.finish(first);
      await talk.eachOnce(first);
    });
  });
});
