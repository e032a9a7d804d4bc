import { randomUUID } from 'node:crypto';

/** The only source of ids and randomness, so that a run can be repeated from a seed. */
export abstract class Randomness {
  /** A new unique id of letters, digits and `-`, 36 characters. */
  abstract id(): string;

  /** A number from 0 (inclusive) to 1 (exclusive), for jitter. */
  abstract fraction(): number;
}

export class SystemRandomness extends Randomness {
  id(): string {
    return randomUUID();
  }

  fraction(): number {
    return Math.random();
  }
}
