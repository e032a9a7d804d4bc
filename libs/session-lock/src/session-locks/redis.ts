import {
  encodeNotice,
  type KeyNames,
  type Owner,
  ownerToken,
  parseOwnerToken,
  partitionOf,
  podName,
  type SessionKey,
} from '#protocol';
import type { RedisConnection, Script } from '#platform';
import {
  type AcquireAnswer,
  type Hold,
  type ReleaseAnswer,
  type ReleaseManner,
  SessionLocks,
} from '../session-locks.js';

/** The leases as Redis strings with expiry; see the heads of the scripts. */
export class RedisSessionLocks extends SessionLocks {
  private readonly acquireScript: Script<['acquired' | 'not_intact'] | ['held', string]>;
  private readonly renewScript: Script<(0 | 1)[]>;
  private readonly releaseScript: Script<ReleaseAnswer>;
  private readonly buryScript: Script<0 | 1>;

  constructor(
    private readonly redis: RedisConnection,
    private readonly keys: KeyNames,
    private readonly leaseTtlMs: number,
  ) {
    super();
    this.acquireScript = redis.scripts.load(new URL('../scripts/acquire.lua', import.meta.url));
    this.renewScript = redis.scripts.load(new URL('../scripts/renew.lua', import.meta.url));
    this.releaseScript = redis.scripts.load(new URL('../scripts/release.lua', import.meta.url));
    this.buryScript = redis.scripts.load(new URL('../scripts/bury.lua', import.meta.url));
  }

  async acquire(session: SessionKey, owner: Owner): Promise<AcquireAnswer> {
    const keys = [this.keys.lock(session), this.keys.intact(partitionOf(session))];
    const [kind, held] = await this.acquireScript(keys, [ownerToken(owner), this.leaseTtlMs]);
    return kind === 'held' ? { kind, owner: parseOwnerToken(held) } : { kind };
  }

  async renew(holds: readonly Hold[]): Promise<boolean[]> {
    if (holds.length === 0) return [];
    const still = await this.renewScript(
      [this.keys.intact(partitionOf(holds[0]!.session)), ...holds.map(({ session }) => this.keys.lock(session))],
      [this.leaseTtlMs, ...holds.map(({ owner }) => ownerToken(owner))],
    );
    return still.map((answer) => answer === 1);
  }

  async release(session: SessionKey, owner: Owner, manner: ReleaseManner): Promise<ReleaseAnswer> {
    const { account, sessionId } = session;
    const keys = [
      this.keys.lock(session),
      this.keys.intact(partitionOf(session)),
      this.keys.pending(session),
      this.keys.processing(session),
    ];
    const wake = encodeNotice({ type: 'wake', account, sessionId });
    return this.releaseScript(keys, [ownerToken(owner), this.leaseTtlMs, manner, this.keys.podsChannel(), wake]);
  }

  async bury(session: SessionKey, owner: Owner): Promise<boolean> {
    const free = await this.buryScript(
      [this.keys.lock(session)],
      [ownerToken(owner), this.keys.podChannel(podName(owner))],
    );
    return free === 1;
  }

  async owners(sessions: readonly SessionKey[]): Promise<(Owner | null)[]> {
    const locks = await Promise.all(
      sessions.map((session) => this.redis.run((redis) => redis.get(this.keys.lock(session)))),
    );
    return locks.map((token) => (token === null ? null : parseOwnerToken(token)));
  }

  async holder(session: SessionKey): Promise<{ owner: Owner; leaseRemainingMs: number } | null> {
    const lock = this.keys.lock(session);
    const [token, leaseRemainingMs] = await this.redis.run((redis) => Promise.all([redis.get(lock), redis.pttl(lock)]));
    return token === null || leaseRemainingMs < 0 ? null : { owner: parseOwnerToken(token), leaseRemainingMs };
  }
}
