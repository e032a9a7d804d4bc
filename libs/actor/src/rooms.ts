import type { Room } from '#protocol';

/**
 * The pod's room: at most `max` places are taken at a time, one by each actor that works. A turn that waits for its
 * children has left its place, and comes back before anybody new is let in: else parents that wait would keep their own
 * children out [E1].
 */
export class Rooms {
  private taken = 0;
  private readonly returning: Place[] = [];

  /**
   * @param isOpen whether anybody new may be let in at all
   * @param onFree told when a place comes free that nobody waits for, in a pod that was full
   */
  constructor(
    private readonly max: number,
    private readonly isOpen: () => boolean,
    private readonly onFree: () => void,
  ) {}

  get working(): number {
    return this.taken;
  }

  get hasPlace(): boolean {
    return this.isOpen() && this.returning.length === 0 && this.taken < this.max;
  }

  take(): boolean {
    if (!this.hasPlace) return false;
    this.taken++;
    return true;
  }

  give(): void {
    const wasFull = this.taken >= this.max;
    this.taken--;
    this.admitReturning();
    if (wasFull && this.taken < this.max) this.onFree();
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
      this.taken++;
      this.returning.shift()!.admitted();
    }
  }
}

/** One actor's place: taken and given back once, whoever asks twice. */
export class Place implements Room {
  private has = false;
  private back: (() => void) | null = null;

  constructor(private readonly rooms: Rooms) {}

  /** Whether the actor has a place now. */
  take(): boolean {
    this.has ||= this.rooms.take();
    return this.has;
  }

  leave(): void {
    this.back = null;
    this.rooms.stayAway(this);
    if (!this.has) return;
    this.has = false;
    this.rooms.give();
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
