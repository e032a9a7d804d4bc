import type { Dialect } from './dialect.js';

export type SqlValue = string | number | boolean | null;
export type Row = Record<string, string | number | null>;

/** What runs statements. `?` marks a parameter; a list of them is written out by `placeholders()`. */
export interface SqlRunner {
  readonly dialect: Dialect;
  /** The rows of a SELECT. BIGINT comes as a safe integer. */
  query<R = Row>(sql: string, values?: readonly SqlValue[]): Promise<R[]>;
  /** Runs an INSERT, UPDATE or DELETE; how many rows it matched. */
  execute(sql: string, values?: readonly SqlValue[]): Promise<number>;
}

/** What a question answers for rows that another transaction holds, when it was asked not to wait for them. */
export const HELD = Symbol('held');

/** A SELECT with its parameters. */
export interface Query {
  sql: string;
  values: SqlValue[];
}

/**
 * Something a transaction wants to know, asked for many keys at once: a statement or two answer all the transactions of
 * a group that ask at the same time. Within a transaction equal keys get the same answer, the very same object.
 */
export interface Question<K, V> {
  /** Its place in the one lock order: what is asked at the same time is answered in the order of the ranks. */
  readonly rank: number;
  /** Equal for equal keys. */
  name(key: K): string;
  /** With `skipLocked`, rows that another transaction holds are left out. */
  queries(dialect: Dialect, keys: readonly K[], skipLocked: boolean): Query[];
  /** The answers in the order of the keys, from the rows of each query; HELD for a row that was left out. */
  answers(rows: readonly Row[][], keys: readonly K[]): (V | typeof HELD)[];
}

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
  statements(rows: readonly W[], dialect: Dialect): Statement[];
}

/** One attempt at a transaction. */
export interface Tx extends SqlRunner {
  /**
   * True when the COMMIT of an earlier attempt got no answer, so its work may stand already. The work then looks, under
   * its locks, for its own trace before it does anything.
   */
  readonly uncertain: boolean;
  /** Asks what others of the same group may ask too. All locks are taken in this way, so that their order holds. */
  ask<K, V>(question: Question<K, V>, key: K): Promise<V>;
  /** Leaves a row to be written when the work is done, together with those of its group. */
  write<W>(writing: Writing<W>, row: W): void;
  /** What this transaction has left to be written so far, rows of others in its group included. */
  written<W>(writing: Writing<W>): readonly W[];
}
