/** Whether something may have been said to the session since it was last looked at. */
export class News {
  private has = false;
  private heard: () => void = () => undefined;

  tell(): void {
    this.has = true;
    this.heard();
  }

  /** Whether there was any; from now on it is old. */
  take(): boolean {
    const had = this.has;
    this.has = false;
    return had;
  }

  /** Resolves when there is some that has not been taken. One waits at a time. */
  wait(): Promise<void> {
    return new Promise((resolve) => {
      if (this.has) resolve();
      else this.heard = resolve;
    });
  }
}
