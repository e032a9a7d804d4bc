import type { Question, Row, SqlRunner, Statement, Tx } from './tx.js';

/**
 * The order of the questions of a group, and with it the one lock order: what is read as committed, without a lock; turn
 * rows; session rows; what is read once those locks are held.
 */
export const LOCK_RANK = { unlocked: 0, turn: 1, session: 2, afterLocks: 3 } as const;

/** The order of what a group writes. An insertion may wait for a taken key, so new turns come before new sessions, too. */
export const WRITE_RANK = { newTurn: 1, session: 2, movedTurn: 3, event: 4 } as const;

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
  const rows: Row[][] = [];
  for (const { sql, values } of question.queries(runner.dialect, [key], false))
    rows.push(await runner.query(sql, values));
  return question.answers(rows, [key])[0] as V;
}
