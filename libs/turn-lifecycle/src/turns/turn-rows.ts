import type { Id, Kind, Meta, Mode, Ref, SRef, TurnError, TurnState } from '#protocol';
import type { Row } from '#platform';
import type { LiveTurn, NewTurn, StopOrder, Tombstone, TurnRow } from '../turns.js';

export const TURN_COLUMNS =
  'account, turn_id, session_id, path, parent_session_id, parent_turn_id, parent_generation, state, generation, ' +
  'queue_seq, accepted_seq, content_seq, mode, kind, initiator, metadata, digest, attempts, absorbed_by_turn_id, ' +
  'absorbed_by_generation, stop_by, stop_reason, stop_at, stop_via_turn_id, stop_via_generation, error, accepted_at, ' +
  'queued_at, started_at, ended_at, refused_at';

export function toTurn(row: Row): TurnRow {
  return {
    account: row['account'] as Id,
    turnId: row['turn_id'] as Id,
    sessionId: row['session_id'] as Id,
    path: row['path'] as string,
    parent: parentOf(row),
    state: row['state'] as TurnState,
    generation: row['generation'] as number,
    queueSeq: row['queue_seq'] as number | null,
    acceptedSeq: row['accepted_seq'] as number | null,
    contentSeq: row['content_seq'] as number | null,
    mode: row['mode'] as Mode,
    kind: row['kind'] as Kind,
    initiator: row['initiator'] as string | null,
    metadata: parsed<Meta>(row['metadata']),
    digest: row['digest'] as string | null,
    attempts: row['attempts'] as number,
    absorbedBy: absorberOf(row),
    stop: stopOf(row),
    error: parsed<TurnError>(row['error']),
    acceptedAtMs: row['accepted_at'] as number | null,
    queuedAtMs: row['queued_at'] as number | null,
    startedAtMs: row['started_at'] as number | null,
    endedAtMs: row['ended_at'] as number | null,
    refusedAtMs: row['refused_at'] as number | null,
  };
}

/** A turn as it stands when its message has just been accepted with this seq. */
export function newTurnRow(turn: NewTurn, { seq, nowMs }: { seq: number; nowMs: number }): TurnRow {
  return {
    ...turn,
    ...{ state: 'queued', generation: 1, attempts: 0, absorbedBy: null, stop: null, error: null },
    ...{ queueSeq: seq, acceptedSeq: seq, contentSeq: seq },
    ...{ acceptedAtMs: nowMs, queuedAtMs: nowMs, startedAtMs: null, endedAtMs: null, refusedAtMs: null },
  };
}

/** A turn that was stopped before its message came. */
export function tombstoneRow(turn: Tombstone, stop: StopOrder, nowMs: number): TurnRow {
  return {
    ...turn,
    ...{ path: turn.turnId, parent: null, state: 'stopped', generation: 1, attempts: 0, absorbedBy: null, error: null },
    ...{ queueSeq: null, acceptedSeq: null, contentSeq: null },
    ...{ mode: 'enqueue', kind: 'user', metadata: null, digest: null },
    stop: { ...stop, atMs: nowMs },
    ...{ acceptedAtMs: null, queuedAtMs: null, startedAtMs: null, endedAtMs: nowMs, refusedAtMs: null },
  };
}

function parsed<T>(json: string | number | null | undefined): T | null {
  return typeof json === 'string' ? (JSON.parse(json) as T) : null;
}

function parentOf(row: Row): SRef | null {
  if (row['parent_turn_id'] === null) return null;
  return {
    sessionId: row['parent_session_id'] as Id,
    turnId: row['parent_turn_id'] as Id,
    generation: row['parent_generation'] as number,
  };
}

function absorberOf(row: Row): Ref | null {
  if (row['absorbed_by_turn_id'] === null) return null;
  return { turnId: row['absorbed_by_turn_id'] as Id, generation: row['absorbed_by_generation'] as number };
}

function stopOf(row: Row): TurnRow['stop'] {
  if (row['stop_by'] === null) return null;
  return {
    by: row['stop_by'] as string,
    ...(row['stop_reason'] !== null && { reason: row['stop_reason'] as string }),
    ...(row['stop_via_turn_id'] !== null && {
      via: { turnId: row['stop_via_turn_id'] as Id, generation: row['stop_via_generation'] as number },
    }),
    atMs: row['stop_at'] as number,
  };
}

export const LIVE_COLUMNS =
  'account, session_id, turn_id, path, mode, generation, state, queue_seq, initiator, parent_turn_id';

export function toLiveTurn(row: Row): LiveTurn {
  return {
    session: { account: row['account'] as Id, sessionId: row['session_id'] as Id },
    turnId: row['turn_id'] as Id,
    path: row['path'] as string,
    mode: row['mode'] as Mode,
    generation: row['generation'] as number,
    state: row['state'] as TurnState,
    queueSeq: row['queue_seq'] as number,
    initiator: row['initiator'] as string,
    parent: row['parent_turn_id'] as Id | null,
  };
}
