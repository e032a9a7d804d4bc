/** One half of a character: what MySQL refuses and JSON readers disagree about. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/** What is wrong with a text, or null. */
export function textFault(value: unknown, maxChars = Number.MAX_SAFE_INTEGER): string | null {
  if (typeof value !== 'string') return 'must be a text';
  if (value.length > maxChars) return `must be at most ${maxChars} characters long`;
  return LONE_SURROGATE.test(value) ? 'must not have half a surrogate pair' : null;
}
