import { type EventType, MODES } from '#protocol';
import { array, integer, nullable, object, ref, type SchemaObject, text } from './schema-shorthand.js';

const run = { attempt: integer, podId: text, epoch: integer };
const stop = { by: text, 'reason?': text, 'via?': ref('Ref') };
const toolCall = { callId: ref('Id'), name: text, input: {} };
const usage = object({ inputTokens: integer, outputTokens: integer });
const oneOf = (...words: string[]): SchemaObject => ({ type: 'string', enum: words });

/** What each event says. */
export const EVENT_DATA: Record<EventType, SchemaObject> = {
  'message.accepted': object({
    ...{ content: ref('Content'), mode: oneOf(...MODES), kind: oneOf('user', 'report', 'automation'), initiator: text },
    ...{ 'metadata?': ref('Meta'), 'parent?': ref('SRef'), 'interrupts?': ref('Ref') },
  }),
  'message.edited': object({ content: ref('Content'), by: text }),
  'message.refused': object({ code: text, initiator: text }),
  'turn.queued': object({ retryOf: integer, by: text }),
  'turn.started': object(run),
  'turn.resumed': object({ ...run, voids: nullable(text) }),
  'turn.absorbed': object({ absorbedBy: ref('Ref') }),
  'turn.stop_requested': object(stop),
  'turn.stopped': object({ ...stop, gate: oneOf('stop', 'start', 'running') }),
  'turn.completed': object({ 'usage?': usage }),
  'turn.failed': object({ code: text, message: text, retryable: { type: 'boolean' } }),
  'turn.yielded': object({ reason: oneOf('drain', 'lease', 'outage', 'admin') }),
  'model.text': object({ step: text, attempt: integer, 'try?': integer, offset: integer, text }),
  'model.failed': object({
    ...{ step: text, attempt: integer, try: integer, error: ref('TurnError'), retryInMs: integer },
  }),
  'model.message': object({
    ...{ step: text, attempt: integer, text, toolCalls: array(object(toolCall)) },
    ...{ finish: oneOf('stop', 'tool_calls', 'length', 'interrupted'), 'usage?': usage },
  }),
  'tool.call': object({ ...toolCall, repeatable: { type: 'boolean' } }),
  'tool.result': object({
    ...{ callId: ref('Id'), outcome: oneOf('ok', 'error', 'interrupted', 'outcome_unknown'), output: {} },
    'truncated?': { type: 'boolean', enum: [true] },
  }),
  'child.spawned': object({ callId: ref('Id'), child: ref('SRef') }),
  'child.reported': object({ child: ref('SRef'), state: oneOf('completed', 'failed', 'stopped'), text }),
  'owner.changed': object({ podId: text, boot: text, epoch: integer }),
};
