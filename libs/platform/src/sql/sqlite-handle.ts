/** The part of a better-sqlite3 connection that is used here. Every call runs to its end before it returns. */
export interface SqliteHandle {
  prepare(sql: string): SqliteStatement;
  exec(sql: string): void;
  pragma(text: string): unknown;
  function(name: string, options: { deterministic: boolean }, run: () => number): void;
  close(): void;
}

export interface SqliteStatement {
  /** Whether it answers rows. */
  readonly reader: boolean;
  all(...values: unknown[]): unknown[];
  run(...values: unknown[]): { changes: number };
}

/** The code of a SQLite error, e.g. `SQLITE_CONSTRAINT_UNIQUE`; undefined for any other error. */
export function sqliteCode(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' && code.startsWith('SQLITE_') ? code : undefined;
}
