import { RunAlone } from './grouping.js';
import {
  HELD,
  type Query,
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
  /** The rows of each of several SELECTs, run in this order and sent in one round trip. */
  queryAll(queries: readonly Query[]): Promise<Row[][]>;
}

/** What is run in one transaction by an adapter, and what it leaves to be sent before the COMMIT. */
export type Work<T> = (raw: RawTx) => Promise<{ result: T; statements: Statement[] }>;

export type Outcome<T> = { value: T } | { error: unknown };

/** A member failed after it had left something to be written, so what the others were told may be wrong. */
export class SpoiledGroupError extends Error {
  override readonly name = 'SpoiledGroupError';
}

/** Whether one of the works can go on by itself. */
interface Member {
  waiting: boolean;
}

type AnyQuestion = Question<unknown, unknown>;
type AnyWriting = Writing<unknown>;

interface Asked {
  member: Member;
  question: AnyQuestion;
  key: unknown;
  resolve(answer: unknown): void;
  reject(error: unknown): void;
}

/**
 * Runs the works of several callers in one transaction, in step: when all of them wait for an answer, everything that was
 * asked is answered in one round trip, each question for all who ask it, in the order of the ranks. What they write is
 * collected and handed back at the end. So a group costs the round trips of its longest member.
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
    while (await this.everybodyWaits()) await this.answerAll();
    return Promise.all(members);
  }

  /** What the works have left to be written, in the order of its ranks. */
  statements(): Statement[] {
    return [...this.left]
      .sort(([one], [other]) => one.rank - other.rank)
      .flatMap(([writing, rows]) => writing.statements(rows, this.raw.dialect));
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

  /** A work may ask several questions at once; it goes on when all of them are answered. */
  ask(member: Member, question: AnyQuestion, key: unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.asked.push({ member, question, key, resolve, reject });
      if (member.waiting) return;
      member.waiting = true;
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

  private async answerAll(): Promise<void> {
    const asked = this.asked.splice(0);
    const failure = await this.look(asked).then(
      () => null,
      (error: unknown) => ({ error }),
    );
    const members = new Set(asked.map(({ member }) => member));
    for (const member of members) member.waiting = false;
    this.busy += members.size;
    if (failure) return asked.forEach(({ reject }) => reject(failure.error));
    for (const { question, key, resolve, reject } of asked) {
      const answer = this.answers.get(question)!.get(question.name(key));
      if (answer === HELD) reject(new RunAlone('a row is held by another transaction'));
      else resolve(answer);
    }
  }

  /** Finds the answers that are not known yet. */
  private async look(asked: readonly Asked[]): Promise<void> {
    const parts: { question: AnyQuestion; keys: Map<string, unknown>; queries: Query[] }[] = [];
    for (const [question, asking] of Map.groupBy(asked, (each) => each.question)) {
      const known = this.answers.get(question) ?? new Map<string, unknown>();
      this.answers.set(question, known);
      const keys = new Map(asking.map(({ key }) => [question.name(key), key]));
      for (const name of known.keys()) keys.delete(name);
      if (keys.size === 0) continue;
      parts.push({ question, keys, queries: question.queries(this.raw.dialect, [...keys.values()], this.skipLocked) });
    }
    if (parts.length === 0) return;
    parts.sort((one, other) => one.question.rank - other.question.rank);
    const rows = await this.raw.queryAll(parts.flatMap(({ queries }) => queries));
    for (const { question, keys, queries } of parts) {
      const answers = question.answers(rows.splice(0, queries.length), [...keys.values()]);
      const known = this.answers.get(question)!;
      [...keys.keys()].forEach((name, at) => known.set(name, answers[at]));
    }
  }
}

/** What one work of a group is given. */
class MemberTx implements Tx, Member {
  hasWritten = false;
  waiting = false;

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
    return this.group.ask(this, question as AnyQuestion, key) as Promise<V>;
  }

  write<W>(writing: Writing<W>, row: W): void {
    this.hasWritten = true;
    this.group.write(writing as AnyWriting, row);
  }

  written<W>(writing: Writing<W>): readonly W[] {
    return this.group.written(writing as AnyWriting) as W[];
  }
}
