import { Randomness } from '#platform';

/** Repeatable randomness: mulberry32 (Tommy Ettinger), good enough to choose schedules. */
export class SeededRandom extends Randomness {
  private ids = 0;

  constructor(private state: number) {
    super();
  }

  override id(): string {
    return `id-${++this.ids}-${Math.floor(this.fraction() * 1e9).toString(36)}`;
  }

  override fraction(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  }

  /** A whole number from 0 to below `limit`. */
  below(limit: number): number {
    return Math.floor(this.fraction() * limit);
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }

  chance(probability: number): boolean {
    return this.fraction() < probability;
  }
}
