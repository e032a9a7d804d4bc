import { ERROR_STATUS, ID_PATTERN, MODES, TURN_STATES } from '#protocol';
import { META_MAX_ENTRIES, META_NAME_MAX_CHARS, META_TEXT_MAX_CHARS } from '../http/metadata.check.js';
import { FILE_NAME_MAX_CHARS, MEDIA_TYPE, PARTS_MAX } from '../messages/content.check.js';
import { EVENT_DATA } from './event-schemas.js';
import {
  array,
  integer,
  list,
  nullable,
  object,
  ref,
  type Schema,
  type SchemaObject,
  text,
  time,
} from './schema-shorthand.js';

const state: SchemaObject = { type: 'string', enum: [...TURN_STATES] };

/** At least one character that is not blank. */
const NOT_BLANK = String.raw`\S`;
const isFile: SchemaObject = { properties: { type: { enum: ['file'] } } };
const isSaying: SchemaObject = { required: ['text'], properties: { text: { type: 'string', pattern: NOT_BLANK } } };

const SHAPES = {
  Id: {
    type: 'string',
    pattern: ID_PATTERN.source,
    not: { enum: ['.', '..'] },
    description: '1 to 128 characters of A-Z a-z 0-9 . _ ~ - and not "." or "..". Compared byte by byte.',
  },
  Meta: {
    type: 'object',
    maxProperties: META_MAX_ENTRIES,
    propertyNames: { type: 'string', minLength: 1, maxLength: META_NAME_MAX_CHARS },
    additionalProperties: {
      oneOf: [{ type: 'string', maxLength: META_TEXT_MAX_CHARS }, { type: 'number' }, { type: 'boolean' }],
    },
    description:
      `At most ${META_MAX_ENTRIES} entries; names of 1 to ${META_NAME_MAX_CHARS} and texts of at most ` +
      `${META_TEXT_MAX_CHARS} UTF-16 units. Names that every object has, such as "constructor", are refused.`,
  },
  Part: {
    oneOf: [
      object({ type: { type: 'string', enum: ['text'] }, text }),
      object({
        type: { type: 'string', enum: ['file'] },
        url: { type: 'string', format: 'uri' },
        mediaType: { type: 'string', pattern: MEDIA_TYPE.source },
        'name?': { type: 'string', maxLength: FILE_NAME_MAX_CHARS },
      }),
    ],
    description: `A text or a file. The name of a file has at most ${FILE_NAME_MAX_CHARS} UTF-16 units.`,
  },
  Content: {
    oneOf: [
      { type: 'string', pattern: NOT_BLANK },
      {
        type: 'array',
        items: ref('Part'),
        minItems: 1,
        maxItems: PARTS_MAX,
        contains: { anyOf: [isFile, isSaying] },
      },
    ],
    description:
      `A text, or 1 to ${PARTS_MAX} parts; at least one non-blank character or a file; no half of a surrogate pair. ` +
      'Files are handed on, never fetched.',
  },
  Ref: object({ turnId: ref('Id'), generation: integer }),
  SRef: object({ turnId: ref('Id'), generation: integer, sessionId: ref('Id') }),
  TurnError: object({ code: text, message: text, retryable: { type: 'boolean' } }),
  Accepted: object({
    ...{ sessionId: ref('Id'), turnId: ref('Id'), generation: integer },
    ...{ state: { type: 'string', enum: ['queued'] }, seq: integer },
  }),
  StopAnswer: object({
    ...{ sessionId: ref('Id'), turnId: ref('Id'), generation: integer },
    ...{ state: { type: 'string', enum: ['stopped', 'stop_requested', 'completed', 'failed'] } },
    already: { type: 'boolean' },
  }),
  Session: object({
    ...{ sessionId: ref('Id'), 'title?': text, 'metadata?': ref('Meta') },
    ...{ state: { type: 'string', enum: ['idle', 'queued', 'running'] }, lastSeq: integer, queued: integer },
    ...{ runningTurn: nullable(ref('Ref')), createdAt: time, lastActivityAt: time },
  }),
  Sessions: list('sessions', 'Session'),
  Turn: object({
    ...{ sessionId: ref('Id'), turnId: ref('Id'), generation: integer, state },
    ...{ kind: { type: 'string', enum: ['user', 'report', 'automation'] }, mode: { type: 'string', enum: [...MODES] } },
    ...{ content: nullable(ref('Content')), 'metadata?': ref('Meta'), initiator: nullable(text) },
    ...{
      parent: nullable(ref('SRef')),
      attempts: integer,
      queueSeq: nullable(integer),
      absorbedBy: nullable(ref('Ref')),
    },
    ...{ stop: nullable(object({ by: text, 'reason?': text, at: time })), error: nullable(ref('TurnError')) },
    ...{ acceptedAt: nullable(time), startedAt: nullable(time), endedAt: nullable(time) },
  }),
  Turns: list('turns', 'Turn'),
  Event: {
    oneOf: Object.keys(EVENT_DATA).map((type) => ref(`Event_${type}`)),
    discriminator: {
      propertyName: 'type',
      mapping: Object.fromEntries(Object.keys(EVENT_DATA).map((type) => [type, ref(`Event_${type}`).$ref])),
    },
  },
  Events: object({ events: array(ref('Event')), nextAfter: integer, hasMore: { type: 'boolean' } }),
  Ownership: object({
    ...{ account: ref('Id'), sessionId: ref('Id') },
    owner: nullable(object({ podId: text, boot: text, epoch: integer, leaseRemainingMs: integer })),
    ...{ ledgerEpoch: integer, pending: array(ref('Ref')), processing: nullable(ref('Ref')) },
    runningTurn: nullable(
      object({ turnId: ref('Id'), generation: integer, state, attempts: integer, startedAt: time }),
    ),
    lastSeq: integer,
  }),
  Health: object({
    status: { type: 'string', enum: ['ok', 'error', 'shutting_down'] },
    ...{ info: { type: 'object' }, error: { type: 'object' }, details: { type: 'object' } },
  }),
  Problem: {
    ...object({
      ...{ type: text, title: text, status: integer, detail: text },
      code: { type: 'string', enum: Object.keys(ERROR_STATUS) },
      'errors?': array(object({ path: text, message: text })),
      ...{
        'sessionId?': ref('Id'),
        'turnId?': ref('Id'),
        'generation?': integer,
        'state?': state,
        'lastSeq?': integer,
      },
    }),
    description: 'RFC 9457. What to do stands in `detail`; programs go by `code`.',
  },
} satisfies Record<string, Schema>;

export type SchemaName = keyof typeof SHAPES;

/** Every shape of the contract, by name. */
export function schemas(): Record<string, Schema> {
  const events = Object.entries(EVENT_DATA).map(([type, data]) => [
    `Event_${type}`,
    object({
      ...{ seq: integer, type: { type: 'string', enum: [type] } },
      ...{ turnId: nullable(ref('Id')), generation: nullable(integer), at: time, data },
    }),
  ]);
  return { ...SHAPES, ...(Object.fromEntries(events) as Record<string, Schema>) };
}
