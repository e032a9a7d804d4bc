/** The text with each lone surrogate replaced by U+FFFD: what UTF-8 can carry and every reader gets back alike. */
export function wellFormed(text: string): string {
  return (text as string & { toWellFormed(): string }).toWellFormed();
}

/**
 * The value as JSON, keys and strings well-formed. (JSON.stringify keeps a lone surrogate as an escape, which some
 * readers refuse.)
 */
export function wellFormedJson(value: unknown): string {
  const json = JSON.stringify(value);
  // The only \ud of JSON.stringify are lone surrogates and texts that spell one: look closer at those alone.
  return json.includes('\\ud') ? JSON.stringify(mend(JSON.parse(json))) : json;
}

function mend(value: unknown): unknown {
  if (typeof value === 'string') return wellFormed(value);
  if (Array.isArray(value)) return value.map(mend);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [wellFormed(key), mend(each)]));
}
