/** The SQLite file is held by another process. Terminal: a SQLite database serves one process. */
export class DatabaseInUseError extends Error {
  override readonly name = 'DatabaseInUseError';

  constructor(path: string, options?: { cause?: unknown }) {
    super(
      `the database file ${path} is in use by another process: stop that one, name another file in DATABASE_URL, ` +
        'or use MySQL to run several pods',
      options,
    );
  }
}
