export type InvariantName = 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'I7' | 'I8' | 'I9' | 'I10' | 'I11' | 'I12';

/** A promise that does not hold. */
export class Violation extends Error {
  override readonly name = 'Violation';

  constructor(
    readonly invariant: InvariantName,
    complaint: string,
  ) {
    super(`${invariant}: ${complaint}`);
  }
}

/** @throws Violation */
export function demand(holds: boolean, invariant: InvariantName, complaint: string): void {
  if (!holds) throw new Violation(invariant, complaint);
}
