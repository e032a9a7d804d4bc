import { RunAlone } from './grouping.js';
import {
  HELD,
  type Question,
  type Row,
  type SqlRunner,
  type SqlValue,
  type Statement,
  type Tx,
  type Writing,
} from './tx.js';

/** What the adapters offer inside one transaction. */
export interface RawTx extends SqlRunner {
  readonly uncertain: boolean;
}

/** What is run in one transaction by an adapter, and what it leaves to be sent before the COMMIT. */
export type Work<T> = (raw: RawTx) => Promise<{ result: T; statements: Statement[] }>;

export type Outcome<T> = { value: T } | { error: unknown };

/** A member failed after it had left something to be written, so what the others were told may be wrong. */
export class SpoiledGroupError extends Error {
  override readonly name = 'SpoiledGroupError';
}

type AnyQuestion = Question<unknown, unknown>;
type AnyWriting = Writing<unknown>;

interface Asked {
  question: AnyQuestion;
  key: unknown;
  resolve(answer: unknown): void;
  reject(error: unknown): void;
}

/**
 * Runs the works of several callers in one transaction, in step: when all of them wait for an answer, the question of the
 * lowest rank is answered for all who ask it, with one statement. What they write is collected and handed back at the
 * end. So a group costs the round trips of its longest member, and the lock order holds for the group as for each.
 *
 * Owns: the answers and what is to be written, for this one transaction. Does not own: the transaction (the adapter's).
 */
export class TransactionGroup {
  private readonly asked: Asked[] = [];
  private readonly answers = new Map<AnyQuestion, Map<string, unknown>>();
  private readonly left = new Map<AnyWriting, unknown[]>();
  /** Members that neither are done nor wait for an answer. */
  private busy = 0;
  private allWait: () => void = () => undefined;

  constructor(
    private readonly raw: RawTx,
    private readonly skipLocked: boolean,
  ) {}

  /** The outcome of each work, in order. @throws SpoiledGroupError; the first failure of a statement */
  async run<T>(works: readonly ((tx: Tx) => Promise<T>)[]): Promise<Outcome<T>[]> {
    this.busy = works.length;
    const members = works.map((work) => this.member(work));
    while (await this.everybodyWaits()) await this.answerOne();
    return Promise.all(members);
  }

  /** What the works have left to be written, in the order of its ranks. */
  statements(): Statement[] {
    return [...this.left]
      .sort(([one], [other]) => one.rank - other.rank)
      .flatMap(([writing, rows]) => writing.statements(rows));
  }

  private async member<T>(work: (tx: Tx) => Promise<T>): Promise<Outcome<T>> {
    const tx = new MemberTx(this.raw, this);
    try {
      return { value: await work(tx) };
    } catch (error) {
      if (tx.hasWritten) throw new SpoiledGroupError('a transaction failed after it had written', { cause: error });
      return { error };
    } finally {
      this.waits();
    }
  }

  ask(question: AnyQuestion, key: unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.asked.push({ question, key, resolve, reject });
      this.waits();
    });
  }

  write(writing: AnyWriting, row: unknown): void {
    const rows = this.left.get(writing);
    if (rows) rows.push(row);
    else this.left.set(writing, [row]);
  }

  written(writing: AnyWriting): readonly unknown[] {
    return this.left.get(writing) ?? [];
  }

  private waits(): void {
    this.busy--;
    if (this.busy === 0) this.allWait();
  }

  /** Resolves when nobody can go on by itself; whether somebody waits for an answer. */
  private async everybodyWaits(): Promise<boolean> {
    if (this.busy > 0) await new Promise<void>((resolve) => (this.allWait = resolve));
    return this.asked.length > 0;
  }

  private async answerOne(): Promise<void> {
    const question = this.asked.reduce((a, b) => (b.question.rank < a.question.rank ? b : a)).question;
    const asking = this.asked.filter((each) => each.question === question);
    this.asked.splice(0, this.asked.length, ...this.asked.filter((each) => each.question !== question));
    let known = this.answers.get(question);
    if (!known) this.answers.set(question, (known = new Map()));
    try {
      const unknown = new Map<string, unknown>();
      for (const { key } of asking) if (!known.has(question.name(key))) unknown.set(question.name(key), key);
      if (unknown.size > 0) {
        const answers = await question.answer(this.raw, [...unknown.values()], this.skipLocked);
        [...unknown.keys()].forEach((name, at) => known.set(name, answers[at]));
      }
    } catch (error) {
      this.busy += asking.length;
      for (const { reject } of asking) reject(error);
      return;
    }
    this.busy += asking.length;
    for (const { key, resolve, reject } of asking) {
      const answer = known.get(question.name(key));
      if (answer === HELD) reject(new RunAlone('a row is held by another transaction'));
      else resolve(answer);
    }
  }
}

/** What one work of a group is given. */
class MemberTx implements Tx {
  hasWritten = false;

  constructor(
    private readonly raw: RawTx,
    private readonly group: TransactionGroup,
  ) {}

  get dialect() {
    return this.raw.dialect;
  }

  get uncertain(): boolean {
    return this.raw.uncertain;
  }

  query<R = Row>(sql: string, values?: readonly SqlValue[]): Promise<R[]> {
    return this.raw.query<R>(sql, values);
  }

  execute(sql: string, values?: readonly SqlValue[]): Promise<number> {
    this.hasWritten = true;
    return this.raw.execute(sql, values);
  }

  ask<K, V>(question: Question<K, V>, key: K): Promise<V> {
    return this.group.ask(question as AnyQuestion, key) as Promise<V>;
  }

  write<W>(writing: Writing<W>, row: W): void {
    this.hasWritten = true;
    this.group.write(writing as AnyWriting, row);
  }

  written<W>(writing: Writing<W>): readonly W[] {
    return this.group.written(writing as AnyWriting) as W[];
  }
}
