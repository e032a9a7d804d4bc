import { isId, type ModelMessage } from '#protocol';

/**
 * What the strictest model provider would refuse in a model input, a line a fault; empty when it is valid. Every call of
 * an assistant message is answered by exactly one tool message, directly behind it and in the order of the calls; nothing
 * else is a tool message; an assistant message says or calls something; calls of one message have different ids.
 */
export function modelInputFaults(messages: readonly ModelMessage[]): string[] {
  const faults: string[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!;
    if (message.role === 'tool') {
      faults.push(`${at}: a result of ${message.callId} that no call precedes`);
      continue;
    }
    if (message.content !== message.content.toString() || /\p{Surrogate}/u.test(message.content)) {
      faults.push(`${at}: a text that is not well-formed`);
    }
    if (message.role !== 'assistant') {
      if (message.toolCalls) faults.push(`${at}: calls of a ${message.role}`);
      continue;
    }
    const calls = message.toolCalls ?? [];
    if (calls.length === 0 && message.content === '') faults.push(`${at}: an assistant message without anything in it`);
    if (message.toolCalls?.length === 0) faults.push(`${at}: an empty list of calls`);
    if (new Set(calls.map(({ callId }) => callId)).size < calls.length) faults.push(`${at}: a call id used twice`);
    for (const { callId, name } of calls) {
      if (!isId(callId) || name === '') faults.push(`${at}: a call without an id or a name`);
      const result = messages[++at];
      if (result?.role === 'tool' && result.callId === callId) continue;
      faults.push(`${at}: ${callId} is not answered where it has to be`);
      at--;
    }
  }
  return faults;
}
