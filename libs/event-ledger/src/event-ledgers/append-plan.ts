import type { Event, EventDraft } from '#protocol';
import { StaleOwnerError } from '#protocol';
import { wellFormedJson } from '#platform';
import type { Append, Writer } from '../event-ledger.js';
import { EventTooLargeError } from '../event-too-large.error.js';
import type { EventInsert } from './event-rows.js';
import type { LockedHead } from './session-rows.js';

/** How large the JSON of one event's data may be, in bytes of UTF-8. */
const EVENT_MAX_BYTES = 8 * 1024 * 1024;

/** What a row takes beside its data, about. */
const ROW_BYTES = 256;

interface PreparedEvent {
  draft: EventDraft;
  json: string;
}

/** An append whose texts are well-formed and whose sizes have been checked: nothing in it can make a statement fail. */
export interface PreparedAppend {
  id: string;
  writer: Writer;
  activity: boolean;
  events: PreparedEvent[];
  /** About what it takes in a statement. */
  bytes: number;
}

/** @throws EventTooLargeError */
export function prepareAppend({ id, writer, events, activity = false }: Append): PreparedAppend {
  const drafts = writer.kind === 'claim' ? [ownerChanged(writer), ...events] : events;
  let bytes = 0;
  const prepared = drafts.map((draft) => {
    const json = wellFormedJson(draft.data);
    const size = Buffer.byteLength(json);
    if (size > EVENT_MAX_BYTES) throw new EventTooLargeError(draft.type, size, EVENT_MAX_BYTES);
    bytes += size + ROW_BYTES;
    return { draft, json };
  });
  return { id, writer, activity, events: prepared, bytes };
}

function ownerChanged({ epoch, pod }: Extract<Writer, { kind: 'claim' }>): EventDraft {
  return { type: 'owner.changed', turn: null, data: { ...pod, epoch } };
}

/**
 * Gives the append its seqs and moves the head on; touches no table.
 * @throws StaleOwnerError when the writer's epoch is refused; the head is as before then
 */
export function planAppend(head: LockedHead, append: PreparedAppend): { events: Event[]; rows: EventInsert[] } {
  assertEpoch(head, append.writer);
  const at = new Date(head.nowMs).toISOString();
  const events: Event[] = [];
  const rows: EventInsert[] = [];
  for (const { draft, json } of append.events) {
    const seq = head.nextSeq++;
    const turnId = draft.turn?.turnId ?? null;
    const generation = draft.turn?.generation ?? null;
    rows.push({
      session: head.session,
      seq,
      eventId: append.id,
      type: draft.type,
      turnId,
      generation,
      atMs: head.nowMs,
      json,
    });
    // As every later reader gets it, not as the writer's objects are.
    events.push({ seq, type: draft.type, turnId, generation, at, data: JSON.parse(json) } as Event);
  }
  if (append.writer.kind === 'claim') {
    head.ownerEpoch = append.writer.epoch;
    head.claimed = true;
  }
  head.active ||= append.activity;
  return { events, rows };
}

/** An owner writes with the newest epoch; a claim with a strictly higher one, so that of two with the same one wins. */
function assertEpoch(head: LockedHead, writer: Writer): void {
  if (writer.kind === 'producer') return;
  const accepted = writer.kind === 'owner' ? writer.epoch === head.ownerEpoch : writer.epoch > head.ownerEpoch;
  if (accepted) return;
  throw new StaleOwnerError(
    `the ${writer.kind === 'owner' ? 'write' : 'claim'} of epoch ${writer.epoch} to session ${head.session.sessionId} ` +
      `is refused: epoch ${head.ownerEpoch} has claimed it`,
  );
}
