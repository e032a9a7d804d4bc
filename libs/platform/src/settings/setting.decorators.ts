import { Transform } from 'class-transformer';
import { ArrayNotEmpty, IsIn, IsInt, IsOptional, IsString, Max, Min, registerDecorator } from 'class-validator';

/** One environment variable, as the settings table of the docs shows it. */
export interface SettingEntry {
  property: string;
  variable: string;
  /** As the docs show it; what applies when the variable is not set. */
  fallback: string;
  doc: string;
}

const entries = new Map<object, SettingEntry[]>();

/** The settings that a class declares, in the order of its source. */
export function settingsOf(declaring: { prototype: object }): readonly SettingEntry[] {
  return entries.get(declaring.prototype) ?? [];
}

/** Reads a property from an environment variable. `fallback` is what the docs say about a variable that is not set. */
export function Setting(variable: string, fallback: string | number, doc: string): PropertyDecorator {
  return (prototype, property) => {
    const known = entries.get(prototype) ?? [];
    entries.set(prototype, [...known, { property: String(property), variable, fallback: String(fallback), doc }]);
  };
}

const DIGITS = /^\d{1,15}$/;

/** A whole number written in digits, from `min` to `max`. */
export function WholeNumber(min: number, max = Number.MAX_SAFE_INTEGER): PropertyDecorator {
  const message =
    max === Number.MAX_SAFE_INTEGER ? `use a whole number from ${min} up` : `use a whole number from ${min} to ${max}`;
  return all(
    Transform(({ value }: { value: unknown }) =>
      typeof value === 'string' && DIGITS.test(value) ? Number(value) : value,
    ),
    IsInt({ message }),
    Min(min, { message }),
    Max(max, { message }),
  );
}

/** One of these words. `offered`: those that a faulty value is told of; the others have a refusal of their own. */
export function OneOf(words: readonly string[], offered = words): PropertyDecorator {
  return IsIn(words, { message: offered.length > 1 ? `use one of: ${offered.join(', ')}` : `use ${offered[0]}` });
}

/** A list of words with commas between them. */
export function Words(allowed?: readonly string[]): PropertyDecorator {
  const split = Transform(({ value }: { value: unknown }) =>
    typeof value === 'string' ? [...new Set(value.split(',').map((word) => word.trim()))].filter(Boolean) : value,
  );
  if (!allowed) return split;
  return all(
    split,
    IsIn(allowed, { each: true, message: `use one or more of: ${allowed.join(', ')}, with commas between` }),
    ArrayNotEmpty({ message: `name at least one of: ${allowed.join(', ')}` }),
  );
}

/** Any text, or nothing. */
export function OptionalText(): PropertyDecorator {
  return all(IsOptional(), IsString());
}

/** A value, unless null, that `check` finds no fault with; it answers what to do, or null. */
export function Checked<T extends string | number>(check: (value: T) => string | null): PropertyDecorator {
  return (prototype, property) =>
    registerDecorator({
      name: 'checked',
      target: prototype.constructor,
      propertyName: String(property),
      validator: {
        validate: (value: T | null) => value === null || check(value) === null,
        defaultMessage: (args) => check(args?.value as T) ?? '',
      },
    });
}

function all(...decorators: PropertyDecorator[]): PropertyDecorator {
  return (prototype, property) => decorators.forEach((decorate) => decorate(prototype, property));
}
