import { StepPoints } from '#platform';

/** One place at which the code is being held. */
export interface HeldStep {
  /** Resolves when the code has come to the place. */
  readonly reached: Promise<void>;
  release(): void;
}

type Act = () => Promise<void> | undefined;

/** Step points at which a test holds the code, acts in its place, or lets it fail. Each wish is for one passage. */
export class HeldSteps extends StepPoints {
  /** The names passed so far. */
  readonly passed: string[] = [];
  private readonly acts = new Map<string, Act[]>();

  override reach(name: string): Promise<void> | undefined {
    this.passed.push(name);
    return this.acts.get(name)?.shift()?.();
  }

  hold(name: string): HeldStep {
    const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    this.at(name, () => {
      reach();
      return released;
    });
    return { reached, release };
  }

  /** Acts at the next passage that has no wish yet. */
  at(name: string, act: () => Promise<void> | void): void {
    const acts = this.acts.get(name) ?? [];
    acts.push(() => act() ?? undefined);
    this.acts.set(name, acts);
  }

  fail(name: string, error: Error): void {
    this.at(name, () => Promise.reject(error));
  }
}
