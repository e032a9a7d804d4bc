/**
 * Whether anything speaks against the leases of this pod. After it has lost its subscription others may take it for dead,
 * and while Redis does not answer nobody knows; so nothing new is begun until a renewal has answered. What is under way
 * goes on, and may be recorded: the ledger's fence has the last word.
 */
export class Certainty {
  private doubted = false;
  private waiting: (() => void)[] = [];

  get holds(): boolean {
    return !this.doubted;
  }

  doubt(): void {
    this.doubted = true;
  }

  settle(): void {
    this.doubted = false;
    for (const go of this.waiting.splice(0)) go();
  }

  /** Resolves when nothing speaks against them. */
  returns(): Promise<void> {
    return this.doubted ? new Promise((resolve) => this.waiting.push(resolve)) : Promise.resolve();
  }
}
