/** How often each thing has happened, by its kind and name. */
export class Coverage {
  private readonly counts = new Map<string, number>();

  count(kind: string, name: string, by = 1): void {
    const key = `${kind} ${name}`;
    this.counts.set(key, (this.counts.get(key) ?? 0) + by);
  }

  of(name: string): number {
    return this.counts.get(name) ?? 0;
  }

  add(other: Coverage): void {
    for (const [key, count] of other.counts) this.counts.set(key, (this.counts.get(key) ?? 0) + count);
  }

  /** What was to happen and never did. */
  missing(expected: readonly string[]): string[] {
    return expected.filter((name) => this.of(name) === 0);
  }
}
