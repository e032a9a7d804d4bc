/** Whether this pod is on its way out: no new leases, readiness fails. Set once, never taken back. */
export class Drain {
  private readonly controller = new AbortController();

  get started(): boolean {
    return this.controller.signal.aborted;
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  start(): void {
    this.controller.abort(new Error('this pod is draining'));
  }
}
