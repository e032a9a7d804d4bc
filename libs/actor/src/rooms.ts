import type { Room } from '#protocol';

/**
 * How a session comes to ask for a place: somebody `named` it just now, or it was `found` among those that wait, the
 * longest waiting first.
 */
export type Way = 'named' | 'found';

/** One in so many places is kept for sessions that are named while others wait. */
const KEPT_ONE_IN = 10;

/**
 * The pod's room: at most `max` places are taken at a time, one by each actor that works. While sessions wait for room,
 * what comes free is theirs, by age, so that newcomers cannot starve them; but a tenth of the room is kept for newcomers,
 * so that what a dead pod has left does not keep them out either. A turn that waits for its children has left its place,
 * and comes back before anybody new is let in: else parents that wait would keep their own children out [E1].
 */
export class Rooms {
  private taken = 0;
  /** How many of those have been named. */
  private named = 0;
  private someWait = false;
  private readonly kept: number;
  private readonly returning: Place[] = [];

  /**
   * @param isOpen whether anybody new may be let in at all
   * @param onFree told when there is a place for those who wait
   */
  constructor(
    private readonly max: number,
    private readonly isOpen: () => boolean,
    private readonly onFree: () => void,
  ) {
    this.kept = Math.floor(max / KEPT_ONE_IN);
  }

  get working(): number {
    return this.taken;
  }

  hasPlace(way: Way): boolean {
    if (!this.isOpen() || this.returning.length > 0 || this.taken >= this.max) return false;
    if (way === 'found') return this.taken < this.max - Math.max(0, this.kept - this.named);
    return !this.someWait || this.named < this.kept;
  }

  take(way: Way): boolean {
    if (this.hasPlace(way)) {
      this.count(way, 1);
      return true;
    }
    this.someWait = true;
    // There is room, but those who have waited longer come first: it is for a look to say who that is.
    if (this.isOpen() && this.taken < this.max) this.onFree();
    return false;
  }

  give(way: Way): void {
    const wasFull = this.taken >= this.max;
    this.count(way, -1);
    this.admitReturning();
    if ((wasFull || this.someWait) && this.taken < this.max) this.onFree();
  }

  /** Somebody has looked who waits: whether there was no place for some of them. */
  looked(someWait: boolean): void {
    this.someWait = someWait;
  }

  comeBack(place: Place): void {
    this.returning.push(place);
    this.admitReturning();
  }

  stayAway(place: Place): void {
    const at = this.returning.indexOf(place);
    if (at >= 0) this.returning.splice(at, 1);
  }

  /** A pod that leaves lets everybody in who waits: they only leave. */
  admitReturning(): void {
    while (this.returning.length > 0 && (this.taken < this.max || !this.isOpen())) {
      const place = this.returning.shift()!;
      this.count(place.way, 1);
      place.admitted();
    }
  }

  private count(way: Way, by: 1 | -1): void {
    this.taken += by;
    if (way === 'named') this.named += by;
  }
}

/** One actor's place: taken and given back once, whoever asks twice. */
export class Place implements Room {
  private has = false;
  private cameBy: Way = 'named';
  private back: (() => void) | null = null;

  constructor(private readonly rooms: Rooms) {}

  get way(): Way {
    return this.cameBy;
  }

  /** Whether the actor has a place now. */
  take(way: Way = 'named'): boolean {
    if (!this.has && this.rooms.take(way)) {
      this.has = true;
      this.cameBy = way;
    }
    return this.has;
  }

  leave(): void {
    this.back = null;
    this.rooms.stayAway(this);
    if (!this.has) return;
    this.has = false;
    this.rooms.give(this.cameBy);
  }

  async enter(): Promise<void> {
    if (this.has) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.back = resolve;
    this.rooms.comeBack(this);
    await promise;
  }

  /** The turn has ended, perhaps while it waited: whoever waits for a place for it does not any more. */
  settle(): void {
    if (!this.has) this.leave();
  }

  /** Called by the rooms, which have taken the place for it. */
  admitted(): void {
    this.has = true;
    this.back?.();
    this.back = null;
  }
}
