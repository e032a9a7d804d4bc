import type { Field, FieldWanted } from './field.js';
import type { Form } from './form.js';
import type { Reading } from './reading.js';
import type { Row } from './row.js';

export interface Drill<F extends Form = Form> extends FieldWanted {
  name: string;
  /** What it does, and what is promised for it. */
  tells: string;
  long: F;
  short: F;
  /** Does it, under load. Answers how its own promises are judged when everything has come to rest. */
  play(field: Field, form: F): Promise<(reading: Reading) => Row[]>;
}
