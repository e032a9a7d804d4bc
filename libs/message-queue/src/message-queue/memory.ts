import {
  decodeEnvelope,
  encodeEnvelope,
  encodeNotice,
  type KeyNames,
  type Owner,
  ownerToken,
  PARTITIONS,
  parseOwnerToken,
  parseSessionName,
  partitionOf,
  podName,
  type Ref,
  type SessionKey,
  sessionName,
  type TerminalState,
  turnRank,
} from '#protocol';
import { type Clock, grow, holds, type MemoryStore } from '#platform';
import { fillingMark } from '../filling-mark.js';
import { MessageQueue, type ReadySession, type RecordFacts, type TakeAnswer } from '../message-queue.js';
import type { QueueTimes } from './redis.js';

/** The waiting lines inside one process. Each method is the twin of the script of its name, `complete` of take.lua too. */
export class MemoryMessageQueue extends MessageQueue {
  constructor(
    private readonly store: MemoryStore,
    private readonly keys: KeyNames,
    private readonly times: QueueTimes,
    private readonly clock: Clock,
  ) {
    super();
  }

  async enqueue(
    session: SessionKey,
    ref: Ref,
    facts: RecordFacts,
  ): Promise<{ kind: 'ended' } | { kind: 'queued'; owner: Owner | null }> {
    const record = this.keys.turn(session, ref.turnId);
    const { turnId, generation } = ref;
    if (Number(this.store.hash(record).get('rank') ?? 0) >= turnRank(generation, 'completed')) return { kind: 'ended' };
    const queued = { state: 'queued', generation: String(generation) };
    grow(this.store, record, turnRank(generation, 'queued'), this.times.turnRecordTtlMs, queued);
    const { initiator, parent } = facts;
    this.store.setFields(record, { session: session.sessionId, initiator, parent: parent ?? '' });
    const envelope = encodeEnvelope({ turnId, generation });
    if (!this.line(session).includes(envelope)) this.store.push(this.keys.pending(session), envelope);
    this.index(session);

    const token = this.store.get(this.keys.lock(session));
    if (token === null) return { kind: 'queued', owner: null };
    this.wakeOwner(session, token);
    return { kind: 'queued', owner: parseOwnerToken(token) };
  }

  async take(session: SessionKey, owner: Owner): Promise<TakeAnswer> {
    return this.holds(session, owner) ? this.takeNext(session) : { kind: 'not_owner' };
  }

  async complete(session: SessionKey, owner: Owner, ref: Ref, state: TerminalState | null): Promise<TakeAnswer> {
    if (!this.holds(session, owner)) return { kind: 'not_owner' };
    const envelope = encodeEnvelope(ref);
    for (const key of [this.keys.pending(session), this.keys.processing(session)]) {
      this.store.setList(
        key,
        this.store.list(key).filter((other) => other !== envelope),
      );
    }
    if (state) {
      const { turnId, generation } = ref;
      const fields = { state, generation: String(generation), session: session.sessionId };
      const record = this.keys.turn(session, turnId);
      grow(this.store, record, turnRank(generation, state), this.times.turnRecordTtlMs, fields);
    }
    return this.takeNext(session);
  }

  async restore(
    session: SessionKey,
    by: Owner | { nonce: string },
    refs: readonly Ref[],
  ): Promise<'restored' | 'not_allowed'> {
    const intact = this.store.get(this.keys.intact(partitionOf(session)));
    const allowed = 'nonce' in by ? intact === fillingMark(by.nonce) : this.holds(session, by);
    if (!allowed) return 'not_allowed';
    const line = [...new Set([...refs.map(encodeEnvelope), ...this.line(session)])];
    this.store.setList(this.keys.pending(session), line);
    this.store.setList(this.keys.processing(session), []);
    if (line.length === 0) {
      this.store.remove(this.keys.ready(partitionOf(session)), sessionName(session));
      return 'restored';
    }
    this.index(session);
    const token = this.store.get(this.keys.lock(session));
    if (token === null) this.store.publish(this.keys.podsChannel(), wakeNotice(session));
    else this.wakeOwner(session, token);
    return 'restored';
  }

  async lists(session: SessionKey): Promise<{ pending: Ref[]; processing: Ref | null }> {
    const [processing] = this.store.list(this.keys.processing(session));
    return {
      pending: this.store.list(this.keys.pending(session)).map(decodeEnvelope),
      processing: processing === undefined ? null : decodeEnvelope(processing),
    };
  }

  async present(turns: readonly { session: SessionKey; ref: Ref }[]): Promise<boolean[]> {
    return turns.map(({ session, ref }) => this.line(session).includes(encodeEnvelope(ref)));
  }

  async ready(perPartition: number): Promise<ReadySession[]> {
    const partitions = Array.from({ length: PARTITIONS }, (_, partition) => this.keys.ready(partition));
    return partitions
      .flatMap((key) => this.store.firstOf(key, perPartition))
      .map(({ member, score }) => ({ session: parseSessionName(member), sinceMs: score }))
      .sort((a, b) => a.sinceMs - b.sinceMs);
  }

  private takeNext(session: SessionKey): TakeAnswer {
    const [processing] = this.store.list(this.keys.processing(session));
    if (processing !== undefined) return { kind: 'taken', ref: decodeEnvelope(processing) };
    const [next, ...rest] = this.store.list(this.keys.pending(session));
    if (next === undefined) {
      this.store.remove(this.keys.ready(partitionOf(session)), sessionName(session));
      return { kind: 'empty' };
    }
    this.store.setList(this.keys.pending(session), rest);
    this.store.setList(this.keys.processing(session), [next]);
    this.store.add(this.keys.ready(partitionOf(session)), sessionName(session), this.clock.now());
    return { kind: 'taken', ref: decodeEnvelope(next) };
  }

  /** All that stands in line, processing first. */
  private line(session: SessionKey): string[] {
    return [...this.store.list(this.keys.processing(session)), ...this.store.list(this.keys.pending(session))];
  }

  /** Indexes a session that waits, unless it is. */
  private index(session: SessionKey): void {
    const ready = this.keys.ready(partitionOf(session));
    if (!this.store.has(ready, sessionName(session))) this.store.add(ready, sessionName(session), this.clock.now());
  }

  private wakeOwner(session: SessionKey, token: string): void {
    this.store.publish(this.keys.podChannel(podName(parseOwnerToken(token))), wakeNotice(session));
  }

  private holds(session: SessionKey, owner: Owner): boolean {
    const intact = this.keys.intact(partitionOf(session));
    return holds(this.store, this.keys.lock(session), intact, ownerToken(owner), this.times.leaseTtlMs);
  }
}

function wakeNotice({ account, sessionId }: SessionKey): string {
  return encodeNotice({ type: 'wake', account, sessionId });
}
