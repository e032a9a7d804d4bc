import { ApiPropertyOptional } from '@nestjs/swagger';
import { MayBeLeftOut, Matching } from './field.decorators.js';
import { validationFailed } from './request-validation.js';

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1000;

/** What every list takes. */
export class PageQuery {
  @ApiPropertyOptional({ type: 'integer', minimum: 1, maximum: LIMIT_MAX, default: LIMIT_DEFAULT })
  @MayBeLeftOut()
  @Matching(/^(?:[1-9]\d{0,2}|1000)$/, `must be a whole number from 1 to ${LIMIT_MAX}`)
  limit?: string;
}

/** A list whose cursor means something only to the server. */
export class OpaquePageQuery extends PageQuery {
  @ApiPropertyOptional({ type: 'string', description: 'nextAfter of the page before' })
  @MayBeLeftOut()
  @Matching(/^[A-Za-z0-9_-]{1,512}$/, 'must be the nextAfter of an earlier page')
  after?: string;
}

export function limitOf(query: PageQuery): number {
  return query.limit === undefined ? LIMIT_DEFAULT : Number(query.limit);
}

/** One row more than asked for was read, to know whether there is more. */
export function cutPage<T>(rows: readonly T[], limit: number): { page: T[]; hasMore: boolean } {
  return { page: rows.slice(0, limit), hasMore: rows.length > limit };
}

/** Opaque cursors: the fields of the last row, in base64url. */
export function encodeCursor(fields: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(fields)).toString('base64url');
}

/** @throws ButlerError validation_failed unless `encodeCursor` made it and `read` finds its fields there */
export function decodeCursor<T>(cursor: string, read: (fields: unknown[]) => T | null): T {
  const fields = parse(cursor);
  const value = fields && encodeCursor(fields as string[]) === cursor ? read(fields) : null;
  if (value === null) throw validationFailed([{ path: 'after', message: 'must be the nextAfter of an earlier page' }]);
  return value;
}

function parse(cursor: string): unknown[] | null {
  try {
    const fields: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    return Array.isArray(fields) ? fields : null;
  } catch {
    return null;
  }
}
