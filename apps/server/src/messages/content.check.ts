import type { FieldError } from '#protocol';
import { textFault } from '../http/text.check.js';

export const PARTS_MAX = 100;
export const FILE_NAME_MAX_CHARS = 1024;
export const MEDIA_TYPE = /^[A-Za-z0-9!#$&^_.+-]{1,127}\/[A-Za-z0-9!#$&^_.+-]{1,127}(?:\s*;.{1,255})?$/;

const FIELDS: Record<string, readonly string[]> = {
  text: ['type', 'text'],
  file: ['type', 'url', 'mediaType', 'name'],
};

/** A text, or parts; somewhere in it at least one non-blank character, or a file. */
export function contentFaults(content: unknown): FieldError[] {
  if (typeof content === 'string') {
    return ofField('', textFault(content) ?? (isBlank(content) ? 'must have at least one non-blank character' : null));
  }
  if (!Array.isArray(content)) return [{ path: '', message: 'must be a text or a list of parts' }];
  const parts: unknown[] = content;
  if (parts.length === 0 || parts.length > PARTS_MAX)
    return [{ path: '', message: `must have 1 to ${PARTS_MAX} parts` }];
  const faults = parts.flatMap((part, index) =>
    partFaults(part).map(({ path, message }) => ({ path: `[${index}]${path}`, message })),
  );
  if (faults.length > 0 || parts.some(saysSomething)) return faults;
  return [{ path: '', message: 'must have at least one non-blank character or a file' }];
}

function partFaults(part: unknown): FieldError[] {
  if (!isRecord(part)) return [{ path: '', message: 'must be an object' }];
  const fields = typeof part['type'] === 'string' && Object.hasOwn(FIELDS, part['type']) ? FIELDS[part['type']]! : null;
  if (!fields) return [{ path: '.type', message: 'must be "text" or "file"' }];
  const unknown = Object.keys(part)
    .filter((name) => !fields.includes(name))
    .map((name) => ({ path: `.${name}`, message: 'is not a known field' }));
  return [...unknown, ...(part['type'] === 'text' ? ofField('.text', textFault(part['text'])) : fileFaults(part))];
}

function fileFaults({ url, mediaType, name }: Record<string, unknown>): FieldError[] {
  return [
    ...ofField('.url', textFault(url) ?? (URL.canParse(url as string) ? null : 'must be an absolute URL')),
    ...ofField(
      '.mediaType',
      typeof mediaType === 'string' && MEDIA_TYPE.test(mediaType) ? null : 'must be a media type, like image/png',
    ),
    ...(name === undefined ? [] : ofField('.name', textFault(name, FILE_NAME_MAX_CHARS))),
  ];
}

function saysSomething(part: unknown): boolean {
  return isRecord(part) && (part['type'] === 'file' || !isBlank(String(part['text'])));
}

function isBlank(text: string): boolean {
  return text.trim() === '';
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function ofField(path: string, message: string | null): FieldError[] {
  return message === null ? [] : [{ path, message }];
}
