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
  type Ref,
  type SessionKey,
  sessionName,
  type TerminalState,
  turnRank,
} from '#protocol';
import type { RedisConnection, Script } from '#platform';
import { fillingMark } from '../filling-mark.js';
import { MessageQueue, type ReadySession, type RecordFacts, type TakeAnswer } from '../message-queue.js';

export interface QueueTimes {
  leaseTtlMs: number;
  turnRecordTtlMs: number;
}

/** The waiting lines as Redis lists; see the heads of the scripts. */
export class RedisMessageQueue extends MessageQueue {
  private readonly enqueueScript: Script<['ended'] | ['queued', string]>;
  private readonly takeScript: Script<['taken', string] | ['empty' | 'not_owner']>;
  private readonly restoreScript: Script<'restored' | 'not_allowed'>;
  private readonly listsScript: Script<[string[], string[]]>;
  private readonly presentScript: Script<(0 | 1)[]>;

  constructor(
    private readonly redis: RedisConnection,
    private readonly keys: KeyNames,
    private readonly times: QueueTimes,
  ) {
    super();
    this.enqueueScript = redis.scripts.load(new URL('../scripts/enqueue.lua', import.meta.url));
    this.takeScript = redis.scripts.load(new URL('../scripts/take.lua', import.meta.url));
    this.restoreScript = redis.scripts.load(new URL('../scripts/restore.lua', import.meta.url));
    this.listsScript = redis.scripts.load(new URL('../scripts/lists.lua', import.meta.url));
    this.presentScript = redis.scripts.load(new URL('../scripts/present.lua', import.meta.url));
  }

  async enqueue(
    session: SessionKey,
    ref: Ref,
    facts: RecordFacts,
  ): Promise<{ kind: 'ended' } | { kind: 'queued'; owner: Owner | null }> {
    const [kind, token] = await this.enqueueScript(
      [
        this.keys.lock(session),
        this.keys.pending(session),
        this.keys.processing(session),
        this.keys.ready(partitionOf(session)),
        this.keys.turn(session, ref.turnId),
      ],
      [
        encodeEnvelope(ref),
        sessionName(session),
        turnRank(ref.generation, 'queued'),
        turnRank(ref.generation, 'completed'),
        this.times.turnRecordTtlMs,
        ref.generation,
        session.sessionId,
        facts.initiator,
        facts.parent ?? '',
        this.keys.podChannel(''),
        wakeNotice(session),
      ],
    );
    return kind === 'ended' ? { kind } : { kind, owner: token === '' ? null : parseOwnerToken(token) };
  }

  take(session: SessionKey, owner: Owner): Promise<TakeAnswer> {
    return this.takeNext(session, owner, [], []);
  }

  complete(session: SessionKey, owner: Owner, ref: Ref, state: TerminalState | null): Promise<TakeAnswer> {
    const { turnId, generation } = ref;
    const end = state
      ? [turnRank(generation, state), this.times.turnRecordTtlMs, state, generation, session.sessionId]
      : [];
    return this.takeNext(session, owner, [this.keys.turn(session, turnId)], [encodeEnvelope(ref), ...end]);
  }

  restore(
    session: SessionKey,
    by: Owner | { nonce: string },
    refs: readonly Ref[],
  ): Promise<'restored' | 'not_allowed'> {
    const filler = 'nonce' in by;
    return this.restoreScript(this.lineKeys(session), [
      filler ? '' : ownerToken(by),
      this.times.leaseTtlMs,
      filler ? fillingMark(by.nonce) : '',
      sessionName(session),
      this.keys.podChannel(''),
      this.keys.podsChannel(),
      wakeNotice(session),
      ...refs.map(encodeEnvelope),
    ]);
  }

  async lists(session: SessionKey): Promise<{ pending: Ref[]; processing: Ref | null }> {
    const [pending, [processing]] = await this.listsScript(this.bothLists(session), []);
    return {
      pending: pending.map(decodeEnvelope),
      processing: processing === undefined ? null : decodeEnvelope(processing),
    };
  }

  async present(turns: readonly { session: SessionKey; ref: Ref }[]): Promise<boolean[]> {
    const bySession = Map.groupBy(turns, ({ session }) => sessionName(session));
    const asked = [...bySession.values()];
    const answers = await Promise.all(
      asked.map((group) =>
        this.presentScript(
          this.bothLists(group[0]!.session),
          group.map(({ ref }) => encodeEnvelope(ref)),
        ),
      ),
    );
    const present = new Map(asked.flatMap((group, at) => group.map((turn, nth) => [turn, answers[at]![nth] === 1])));
    return turns.map((turn) => present.get(turn) ?? false);
  }

  async ready(perPartition: number): Promise<ReadySession[]> {
    const partitions = Array.from({ length: PARTITIONS }, (_, partition) => this.keys.ready(partition));
    const indexes = await Promise.all(
      partitions.map((key) => this.redis.run((redis) => redis.zrange(key, 0, perPartition - 1, 'WITHSCORES'))),
    );
    return indexes.flatMap(readIndex).sort((a, b) => a.sinceMs - b.sinceMs);
  }

  private async takeNext(
    session: SessionKey,
    owner: Owner,
    record: string[],
    done: (string | number)[],
  ): Promise<TakeAnswer> {
    const [kind, envelope] = await this.takeScript(
      [...this.lineKeys(session), ...record],
      [ownerToken(owner), this.times.leaseTtlMs, sessionName(session), ...done],
    );
    return kind === 'taken' ? { kind, ref: decodeEnvelope(envelope) } : { kind };
  }

  private lineKeys(session: SessionKey): string[] {
    const partition = partitionOf(session);
    return [
      this.keys.lock(session),
      this.keys.intact(partition),
      ...this.bothLists(session),
      this.keys.ready(partition),
    ];
  }

  private bothLists(session: SessionKey): string[] {
    return [this.keys.pending(session), this.keys.processing(session)];
  }
}

function wakeNotice({ account, sessionId }: SessionKey): string {
  return encodeNotice({ type: 'wake', account, sessionId });
}

/** Members and scores in turn, as ZRANGE answers them. */
function readIndex(members: readonly string[]): ReadySession[] {
  const sessions: ReadySession[] = [];
  for (let at = 0; at < members.length; at += 2) {
    sessions.push({ session: parseSessionName(members[at]!), sinceMs: Number(members[at + 1]) });
  }
  return sessions;
}
