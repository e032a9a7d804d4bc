/**
 * Named places in the code at which a test may hold, kill or observe the process: the seam for tests of races. In
 * production nothing listens and `reach` costs one call.
 */
export class StepPoints {
  /** @param name `<room>.<moment>`, e.g. `intake.committed` */
  reach(_name: string, _facts: Readonly<Record<string, unknown>> = {}): Promise<void> | undefined {
    return undefined;
  }
}
