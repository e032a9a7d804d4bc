import { applyDecorators } from '@nestjs/common';
import { ApiResponse, getSchemaPath } from '@nestjs/swagger';
import { ERROR_STATUS, type ErrorCode } from '#protocol';
import { REQUEST_ID } from '../http/request-id.js';
import type { SchemaName } from './schemas.js';

/** Refusals that every route may give which asks who calls. */
const ALWAYS: readonly ErrorCode[] = ['unauthorized', 'forbidden', 'internal_error'];

/** Describes a good answer. `headers`: further headers, by what they mean. */
export function Answers(status: number, name: SchemaName, headers: Record<string, string> = {}): MethodDecorator {
  const described = { [REQUEST_ID]: 'Names the request, also in the log', ...headers };
  return ApiResponse({
    status,
    description: name,
    headers: Object.fromEntries(
      Object.entries(described).map(([header, description]) => [header, { description, schema: { type: 'string' } }]),
    ),
    content: { 'application/json': { schema: { $ref: getSchemaPath(name) } } },
  });
}

export function AnswersStream(): MethodDecorator {
  return ApiResponse({
    status: 200,
    description:
      'Frames: `id` and `event` of each event with its Event as data; `model.delta` and `stream.end` without id',
    content: { 'text/event-stream': { schema: { type: 'string' } } },
  });
}

/** Describes refusals. Once for each route: Nest would join the descriptions of one status. */
export function Refuses(...codes: ErrorCode[]): MethodDecorator {
  const byStatus = Map.groupBy([...ALWAYS, ...codes].sort(), (code) => ERROR_STATUS[code]);
  return applyDecorators(
    ...[...byStatus].map(([status, same]) =>
      ApiResponse({
        status,
        description: same.map((code) => `\`${code}\``).join(', '),
        content: { 'application/problem+json': { schema: { $ref: getSchemaPath('Problem') } } },
      }),
    ),
  );
}
