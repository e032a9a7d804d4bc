import type { SqlValue } from './tx.js';

/** Part of a statement with its parameters. */
export interface SqlPart {
  sql: string;
  values: SqlValue[];
}

/**
 * Rows whose two columns equal one of these pairs, in a spelling that both databases answer by ranges of an index on the
 * columns: row values in IN are no range on some of them.
 */
export function inPairs(first: string, second: string, pairs: readonly (readonly [string, string])[]): SqlPart {
  const byFirst = new Map<string, string[]>();
  for (const [one, other] of pairs) {
    const others = byFirst.get(one);
    if (others) others.push(other);
    else byFirst.set(one, [other]);
  }
  const alternatives: string[] = [];
  const values: SqlValue[] = [];
  for (const [one, others] of byFirst) {
    alternatives.push(`(${first} = ? AND ${second} IN (${Array(others.length).fill('?').join(', ')}))`);
    values.push(one, ...others);
  }
  return { sql: `(${alternatives.join(' OR ')})`, values };
}

/** `?, ?, ?` for `count` parameters. */
export function placeholders(count: number): string {
  return Array.from({ length: count }, () => '?').join(', ');
}
