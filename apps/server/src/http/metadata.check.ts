import type { FieldError } from '#protocol';
import { textFault } from './text.check.js';

export const META_MAX_ENTRIES = 64;
export const META_NAME_MAX_CHARS = 128;
export const META_TEXT_MAX_CHARS = 4096;

/** A flat record of texts, finite numbers and booleans. */
export function metadataFaults(metadata: unknown): FieldError[] {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) {
    return [{ path: '', message: 'must be an object of texts, numbers and booleans' }];
  }
  const entries = Object.entries(metadata);
  if (entries.length > META_MAX_ENTRIES)
    return [{ path: '', message: `must have at most ${META_MAX_ENTRIES} entries` }];
  return entries.flatMap(([key, value]) => {
    const fault = keyFault(key) ?? valueFault(value);
    return fault === null ? [] : [{ path: `.${key}`, message: fault }];
  });
}

function keyFault(key: string): string | null {
  if (key === '') return 'must have a name';
  const fault = textFault(key, META_NAME_MAX_CHARS);
  return fault && `has a name that ${fault}`;
}

function valueFault(value: unknown): string | null {
  if (typeof value === 'string') return textFault(value, META_TEXT_MAX_CHARS);
  if (typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value))) return null;
  return typeof value === 'number' ? 'must be a finite number' : 'must be a text, a number or a boolean';
}
