import {
  encodeEnvelope,
  type KeyNames,
  ownerToken,
  type Owner,
  partitionOf,
  type Ref,
  type SessionKey,
  sessionName,
} from '#protocol';
import type { Coordination } from '#platform';

/** A session as coordination keeps it. The lists as they stand, doubles included. */
export interface Line {
  lock: string | null;
  pending: string[];
  processing: string[];
}

/** What a test does behind the pods' back: what a failover, an operator or time does to what Redis holds. */
export abstract class Behind {
  constructor(protected readonly keys: KeyNames) {}

  abstract look(session: SessionKey): Promise<Line>;

  /** The record of a turn: its state and generation; empty where there is none. */
  abstract record(session: SessionKey, turnId: string): Promise<string>;

  /** Sets a session back, lists and index; the lock too when it is given (null: nobody's). */
  abstract setBack(session: SessionKey, line: Partial<Line>): Promise<void>;

  /** Forgets the records of turns. */
  abstract forget(session: SessionKey, turnIds: readonly string[]): Promise<void>;

  /** The mark of the session's partition: `yes`, `filling:<nonce>`, or null when Redis has lost it. */
  abstract mark(session: SessionKey): Promise<string | null>;

  /** The mark goes, as it does with all of Redis, or when its filler takes too long. */
  abstract loseMark(session: SessionKey): Promise<void>;

  /** Lets the next look of the reconciler come at once, as if a sweep's interval had passed. */
  abstract letReconcile(session: SessionKey): Promise<void>;

  /** Redis loses everything of the session, its partition's mark included. */
  async loseAll(session: SessionKey, turnIds: readonly string[]): Promise<void> {
    await this.setBack(session, { lock: null });
    await this.forget(session, turnIds);
    await this.loseMark(session);
  }

  /** The lease runs out, or is taken away. */
  async loseLock(session: SessionKey): Promise<void> {
    await this.setBack(session, { ...(await this.look(session)), lock: null });
  }

  /** Whether the lock is this owner's. */
  async isOwner(session: SessionKey, owner: Owner): Promise<boolean> {
    return (await this.look(session)).lock === ownerToken(owner);
  }
}

export function envelopes(...turnIds: string[]): string[] {
  return turnIds.map((turnId) => encodeEnvelope({ turnId, generation: 1 } satisfies Ref));
}

export function behind(coordination: Coordination, keys: KeyNames): Behind {
  return coordination.kind === 'redis' ? new BehindRedis(coordination, keys) : new BehindMemory(coordination, keys);
}

class BehindRedis extends Behind {
  constructor(
    private readonly coordination: Extract<Coordination, { kind: 'redis' }>,
    keys: KeyNames,
  ) {
    super(keys);
  }

  override async look(session: SessionKey): Promise<Line> {
    const [lock, pending, processing] = await this.coordination.redis.run((redis) =>
      Promise.all([
        redis.get(this.keys.lock(session)),
        redis.lrange(this.keys.pending(session), 0, -1),
        redis.lrange(this.keys.processing(session), 0, -1),
      ]),
    );
    return { lock, pending, processing };
  }

  override async record(session: SessionKey, turnId: string): Promise<string> {
    const key = this.keys.turn(session, turnId);
    const fields = await this.coordination.redis.run((redis) => redis.hmget(key, 'state', 'generation'));
    return fields.join(' ').trim();
  }

  override async setBack(session: SessionKey, { lock, pending = [], processing = [] }: Partial<Line>): Promise<void> {
    const lists: [string, string[]][] = [
      [this.keys.pending(session), pending],
      [this.keys.processing(session), processing],
    ];
    const ready = this.keys.ready(partitionOf(session));
    await this.coordination.redis.run((redis) => {
      const step = redis.multi();
      for (const [key, envelopes] of lists) {
        step.del(key);
        if (envelopes.length > 0) step.rpush(key, ...envelopes);
      }
      if (pending.length + processing.length > 0) step.zadd(ready, 'NX', 1, sessionName(session));
      else step.zrem(ready, sessionName(session));
      if (lock === null) step.del(this.keys.lock(session));
      else if (lock !== undefined) step.set(this.keys.lock(session), lock, 'PX', 30_000);
      return step.exec();
    });
  }

  override async forget(session: SessionKey, turnIds: readonly string[]): Promise<void> {
    const records = turnIds.map((turnId) => this.keys.turn(session, turnId));
    await this.coordination.redis.run((redis) => redis.del(...records));
  }

  override mark(session: SessionKey): Promise<string | null> {
    return this.coordination.redis.run((redis) => redis.get(this.keys.intact(partitionOf(session))));
  }

  override async loseMark(session: SessionKey): Promise<void> {
    await this.coordination.redis.run((redis) => redis.del(this.keys.intact(partitionOf(session))));
  }

  override async letReconcile(session: SessionKey): Promise<void> {
    await this.coordination.redis.run((redis) => redis.del(this.keys.reconciling(partitionOf(session))));
  }
}

class BehindMemory extends Behind {
  constructor(
    private readonly coordination: Extract<Coordination, { kind: 'memory' }>,
    keys: KeyNames,
  ) {
    super(keys);
  }

  override async look(session: SessionKey): Promise<Line> {
    const { store } = this.coordination;
    return {
      lock: store.get(this.keys.lock(session)),
      pending: [...store.list(this.keys.pending(session))],
      processing: [...store.list(this.keys.processing(session))],
    };
  }

  override async record(session: SessionKey, turnId: string): Promise<string> {
    const record = this.coordination.store.hash(this.keys.turn(session, turnId));
    return `${record.get('state') ?? ''} ${record.get('generation') ?? ''}`.trim();
  }

  override async setBack(session: SessionKey, { lock, pending = [], processing = [] }: Partial<Line>): Promise<void> {
    const { store } = this.coordination;
    store.setList(this.keys.pending(session), pending);
    store.setList(this.keys.processing(session), processing);
    const ready = this.keys.ready(partitionOf(session));
    if (pending.length + processing.length > 0) store.add(ready, sessionName(session), 1);
    else store.remove(ready, sessionName(session));
    if (lock === null) store.delete(this.keys.lock(session));
    else if (lock !== undefined) store.set(this.keys.lock(session), lock, 30_000);
  }

  override async forget(session: SessionKey, turnIds: readonly string[]): Promise<void> {
    for (const turnId of turnIds) this.coordination.store.delete(this.keys.turn(session, turnId));
  }

  override async mark(session: SessionKey): Promise<string | null> {
    return this.coordination.store.get(this.keys.intact(partitionOf(session)));
  }

  override async loseMark(session: SessionKey): Promise<void> {
    this.coordination.store.delete(this.keys.intact(partitionOf(session)));
  }

  override async letReconcile(session: SessionKey): Promise<void> {
    this.coordination.store.delete(this.keys.reconciling(partitionOf(session)));
  }
}
