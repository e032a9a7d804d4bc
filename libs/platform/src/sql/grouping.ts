import type { SqlRunner, SqlValue, Tx } from './database.js';

/** What a question answers for rows that another transaction holds, when it was asked not to wait for them. */
export const HELD = Symbol('held');

/**
 * Something a transaction wants to know, asked for many keys at once: one statement answers all the transactions of a
 * group that ask at the same time. Within a transaction equal keys get the same answer, the very same object.
 */
export interface Question<K, V> {
  /** Its place in the one lock order: in a group, questions of lower rank are answered first. */
  readonly rank: number;
  /** Equal for equal keys. */
  name(key: K): string;
  /** Answers in the order of the keys. With `skipLocked`, rows that another transaction holds are answered HELD. */
  answer(runner: SqlRunner, keys: readonly K[], skipLocked: boolean): Promise<(V | typeof HELD)[]>;
}

/** The one lock order, and the order of the questions of a group: turn rows, then session rows, then plain reads. */
export const LOCK_RANK = { plain: 0, turn: 1, session: 2, newSession: 3, reads: 4 } as const;

/** A statement that is sent when the work is done. */
export interface Statement {
  sql: string;
  values: SqlValue[];
  /** How many rows it must match: less is a fault of the program, since their locks are held. */
  matches: number;
}

/** Rows that a transaction leaves to be written when its work is done, together with those of its group. */
export interface Writing<W> {
  /** Statements of lower rank are sent first. */
  readonly rank: number;
  statements(rows: readonly W[]): Statement[];
}

/**
 * Thrown where the work of one transaction cannot go on together with the others of its group, e.g. because it would have
 * to wait for a row: it is then run by itself.
 */
export class RunAlone extends Error {
  override readonly name = 'RunAlone';
}

/** A statement matched other rows than those whose locks are held: a fault of the program. */
export class MismatchError extends Error {
  override readonly name = 'MismatchError';
}

/** @throws MismatchError */
export function checkMatches(statements: readonly Statement[], matched: readonly number[]): void {
  for (const [at, { sql, matches }] of statements.entries()) {
    if (matched[at] !== matches) throw new MismatchError(`${matched[at]} rows, not ${matches}, match: ${sql}`);
  }
}

/** Asks inside a transaction together with its group, outside of one by itself. */
export async function ask<K, V>(runner: SqlRunner | Tx, question: Question<K, V>, key: K): Promise<V> {
  if ('ask' in runner) return runner.ask(question, key);
  const [answer] = await question.answer(runner, [key], false);
  return answer as V;
}
