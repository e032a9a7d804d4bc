import { registerDecorator, ValidateIf } from 'class-validator';
import { type FieldError, isId } from '#protocol';

/** Says what is wrong with a value and where in it; paths are relative to it, `''` for itself. */
export type FieldCheck = (value: unknown) => FieldError[];

export const FAULTS = 'faults';

/** A field that `check` finds no fault with. The faults are told with their own paths. */
export function Checked(check: FieldCheck): PropertyDecorator {
  return (prototype, property) =>
    registerDecorator({
      name: FAULTS,
      target: prototype.constructor,
      propertyName: String(property),
      options: { context: { check } },
      validator: { validate: (value: unknown) => check(value).length === 0, defaultMessage: () => 'is not valid' },
    });
}

/** May be left out; null is a value. */
export function MayBeLeftOut(): PropertyDecorator {
  return ValidateIf((_, value: unknown) => value !== undefined);
}

export const ID_RULE = 'must be 1 to 128 characters of A-Z a-z 0-9 . _ ~ - and not "." or ".."';

export function IsId(): PropertyDecorator {
  return Checked((value) => (isId(value) ? [] : [{ path: '', message: ID_RULE }]));
}

/** A text, given once, that matches; as query parameters are. */
export function Matching(pattern: RegExp, message: string): PropertyDecorator {
  return Checked((value) => (typeof value === 'string' && pattern.test(value) ? [] : [{ path: '', message }]));
}
