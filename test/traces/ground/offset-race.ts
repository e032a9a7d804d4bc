import { expect } from '@jest/globals';
import type { SessionKey } from '#protocol';
import { Invariants } from '../../simulation/invariants.js';
import { SeededRandom } from '../../simulation/seeded-random.js';
import type { Ground } from './ground.js';
import { interleavings } from './interleavings.js';
import type { Passage } from './points.js';
import type { TracePod } from './trace-pod.js';

/** Who takes the message in: the pod whose actor leaves, one that runs actors too, one that runs none. */
export const POSTERS = ['the same pod', 'another pod', 'a pod without actors'] as const;
export type Poster = (typeof POSTERS)[number];

/** The orders in which the two calls and what is made of their answers can come about. */
export const CLASSES = interleavings(['release', 'its answer'], ['enqueue', "enqueue's answer"]).map((order) =>
  order.join(', '),
);

/** One try in one session: when each of the four events is let happen, in turns of the event loop, and when it was. */
interface Try {
  session: SessionKey;
  poster: Poster;
  delays: Record<string, number>;
  at: Record<string, number>;
  released: boolean;
}

interface Count {
  hits: number;
  swept: number;
}

const PLACES: Record<string, string> = {
  'locks.release': 'release',
  'locks.release answers': 'its answer',
  'queue.enqueue': 'enqueue',
  'queue.enqueue answers': "enqueue's answer",
};

/**
 * Lets idle actors leave and messages arrive at the same time, in many sessions at once, at random offsets. An offset is
 * counted in turns of the event loop, and drawn from a range that is some round trips long as these were just measured in
 * such turns: so the six orders come about as often on a slow machine as on a fast one.
 */
export class OffsetRace {
  tries = 0;
  late = 0;
  private readonly random = new SeededRandom(1);
  private readonly counts = new Map<string, Count>();
  private readonly sessions: SessionKey[];
  private readonly under = new Map<string, Try>();
  private go: PromiseWithResolvers<void> | null = null;
  private turns = 0;
  private rounds = 0;
  /** How long a call takes, in turns of the event loop; and how long each one of this round took. */
  private roundTrip = 4;
  private trips: number[] = [];

  private constructor(
    private readonly ground: Ground,
    private readonly actors: readonly TracePod[],
    private readonly door: TracePod,
    size: number,
  ) {
    this.sessions = Array.from({ length: size }, () => ground.session());
    for (const pod of [...actors, door]) pod.points.meet = (passage) => this.meet(passage);
  }

  /** Two pods with actors and one without, no notifications, and a sleeping actor in every session. */
  static async open(ground: Ground, size: number): Promise<OffsetRace> {
    // Trust in a lease outlasts all rounds.
    const settings = { leaseTtlMs: 1_000_000_000 };
    const actors = [
      await ground.pod('a', { notified: false, settings }),
      await ground.pod('b', { notified: false, settings }),
    ];
    const door = await ground.pod('p', { notified: false, actors: false });
    const race = new OffsetRace(ground, actors, door, size);
    const [first] = actors;
    await Promise.all(race.sessions.map((session) => first!.post(session, `${session.sessionId}-first`)));
    await ground.quiet();
    return race;
  }

  hits(order: string): number {
    return POSTERS.reduce((sum, poster) => sum + this.count(order, poster).hits, 0);
  }

  /** One try in every session. */
  async round(): Promise<void> {
    this.rounds++;
    await this.start();
    await this.run();
    await this.judge();
  }

  table(title: string): string {
    const lines = CLASSES.map((order) => {
      const cells = POSTERS.map((poster) => {
        const { hits, swept } = this.count(order, poster);
        return `${String(hits).padStart(5)} (${swept} by the sweep)`.padEnd(24);
      });
      return `${order.padEnd(46)} ${cells.join(' ')}`;
    });
    const head = `${`${this.tries} offsets, ${title}`.padEnd(46)} ${POSTERS.map((poster) => poster.padEnd(24)).join(' ')}`;
    return `${[head, ...lines].join('\n')}\n`;
  }

  /** Every message has run, once and in order. */
  async checkLedger(): Promise<void> {
    const invariants = new Invariants(this.ground.ledger, this.sessions);
    await invariants.check();
    expect(invariants.allEnded).toBe(true);
  }

  /** Brings every session's actor and message to where only the call is left to be made. */
  private async start(): Promise<void> {
    const owners = await this.actors[0]!.locks.owners(this.sessions);
    this.go = Promise.withResolvers();
    for (const pod of this.actors) pod.stall(pod.settings.actorIdleMs);
    this.sessions.forEach((session, at) => {
      const owner = this.actors.find((pod) => pod.name === owners[at]?.podId);
      if (!owner) throw new Error(`nobody owns ${session.sessionId}`);
      const poster = this.random.pick(POSTERS);
      const tried = { session, poster, delays: this.delays(), at: {}, released: false };
      this.under.set(session.sessionId, tried);
      void this.posterOf(poster, owner).post(session, `${session.sessionId}-${this.rounds}`);
    });
    await this.sweep();
  }

  private posterOf(poster: Poster, owner: TracePod): TracePod {
    if (poster === 'a pod without actors') return this.door;
    return poster === 'the same pod' ? owner : this.actors.find((pod) => pod !== owner)!;
  }

  private delays(): Record<string, number> {
    const draw = (trips: number): number => this.random.below(this.roundTrip * trips + 4 * trips);
    return { release: draw(4), 'its answer': draw(2), enqueue: draw(4), "enqueue's answer": draw(2) };
  }

  /** Lets all of them go, and waits for the last answer. */
  private async run(): Promise<void> {
    this.go!.resolve();
    const over = (): boolean => [...this.under.values()].every(({ at }) => Object.keys(at).length === 4);
    while (!over()) {
      await new Promise((resolve) => setImmediate(resolve));
      this.turns++;
    }
    await this.ground.quiet();
    const [median] = this.trips.sort((one, other) => one - other).slice(this.trips.length / 2);
    this.roundTrip = median!;
    this.trips = [];
  }

  private meet({ name, sessionId, answer }: Passage): Promise<void> | undefined {
    const place = PLACES[name];
    const tried = sessionId === null ? undefined : this.under.get(sessionId);
    if (!place || !tried || place in tried.at) return undefined;
    if (name === 'locks.release answers') {
      tried.released = answer === 'released';
      this.trips.push(this.turns - tried.at['release']!);
    }
    return this.happen(tried, place);
  }

  private async happen(tried: Try, place: string): Promise<void> {
    await this.go!.promise;
    for (let left = tried.delays[place]!; left > 0; left--) await new Promise((resolve) => setImmediate(resolve));
    tried.at[place] = this.turns;
  }

  private async judge(): Promise<void> {
    const before = await this.waiting();
    await this.sweep();
    const after = await this.waiting();
    for (const tried of this.under.values()) {
      const count = this.count(orderOf(tried), tried.poster);
      count.hits++;
      const isSwept = before.has(tried.session.sessionId);
      if (isSwept) count.swept++;
      // Where the actor has kept its lease, or the poster's pod runs actors, nobody needs the sweep.
      expect(isSwept).toBe(tried.released && tried.poster === 'a pod without actors');
    }
    this.tries += this.under.size;
    this.late += after.size;
    this.under.clear();
  }

  /** Actors only: the reconciler would put in line what is only held on its way there. */
  private async sweep(): Promise<void> {
    await Promise.all(this.actors.map((pod) => pod.supervisor.sweep()));
    await this.ground.quiet();
  }

  private async waiting(): Promise<Set<string>> {
    const loads = await this.ground.turns.loads(this.sessions);
    return new Set(
      this.sessions.flatMap(({ sessionId }, at) => (loads[at]!.queued > 0 || loads[at]!.running ? [sessionId] : [])),
    );
  }

  private count(order: string, poster: Poster): Count {
    const name = `${order}/${poster}`;
    const count = this.counts.get(name) ?? { hits: 0, swept: 0 };
    this.counts.set(name, count);
    return count;
  }
}

/** Which of the two scripts came first, the answer tells; the rest is told by when it was let happen. */
function orderOf({ at, released }: Try): string {
  const events = Object.entries(at).sort(([, one], [, other]) => one - other);
  const order = events.map(([place]) => place);
  const [first, second] = released ? ['release', 'enqueue'] : ['enqueue', 'release'];
  if (order.indexOf(first!) > order.indexOf(second!)) {
    // Sent later, carried out earlier.
    order.splice(order.indexOf(first!), 1);
    order.splice(order.indexOf(second!), 0, first!);
  }
  return order.join(', ');
}
