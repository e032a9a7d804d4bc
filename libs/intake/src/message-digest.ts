import { createHash } from 'node:crypto';
import stringify from 'safe-stable-stringify';

/** Equal for deep-equal values, whatever the order of their fields: how a repeated call is recognised. 64 hex digits. */
export function digestOf(value: unknown): string {
  return createHash('sha256')
    .update(stringify(value) ?? '')
    .digest('hex');
}
