import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * Knows whether the present code runs inside a transaction's work. A call of the database from there would wait for a
 * second connection while it holds the first: with a bounded pool that ends in everybody waiting for everybody.
 */
export class TransactionScope {
  private readonly storage = new AsyncLocalStorage<{ open: boolean }>();

  async run<T>(work: () => Promise<T>): Promise<T> {
    const mark = { open: true };
    try {
      return await this.storage.run(mark, work);
    } finally {
      // What the work left running may use the database again.
      mark.open = false;
    }
  }

  /** @throws Error inside a transaction's work: a programming fault */
  refuseNested(): void {
    if (this.storage.getStore()?.open) {
      throw new Error('the database was called from inside a transaction: use the transaction it was given');
    }
  }
}
