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
import { holds, type MemoryStore } from '#platform';
import {
  type AcquireAnswer,
  type Hold,
  type ReleaseAnswer,
  type ReleaseManner,
  SessionLocks,
} from '../session-locks.js';

/** The leases inside one process. Each method is the twin of the script of its name. */
export class MemorySessionLocks extends SessionLocks {
  constructor(
    private readonly store: MemoryStore,
    private readonly keys: KeyNames,
    private readonly leaseTtlMs: number,
  ) {
    super();
  }

  async acquire(session: SessionKey, owner: Owner): Promise<AcquireAnswer> {
    if (this.store.get(this.keys.intact(partitionOf(session))) !== 'yes') return { kind: 'not_intact' };
    const token = ownerToken(owner);
    const held = this.store.get(this.keys.lock(session));
    if (held !== null && held !== token) return { kind: 'held', owner: parseOwnerToken(held) };
    this.store.set(this.keys.lock(session), token, this.leaseTtlMs);
    return { kind: 'acquired' };
  }

  async renew(leases: readonly Hold[]): Promise<boolean[]> {
    return leases.map(({ session, owner }) => {
      const mine = this.holds(session, owner);
      if (mine) this.store.set(this.keys.lock(session), ownerToken(owner), this.leaseTtlMs);
      return mine;
    });
  }

  async release(session: SessionKey, owner: Owner, manner: ReleaseManner): Promise<ReleaseAnswer> {
    if (!this.holds(session, owner)) return 'not_owner';
    const lists = [this.keys.pending(session), this.keys.processing(session)];
    const waits = lists.some((list) => this.store.list(list).length > 0);
    if (manner === 'idle' && waits) return 'work';
    this.store.delete(this.keys.lock(session));
    if (manner === 'leave' && waits) {
      const { account, sessionId } = session;
      this.store.publish(this.keys.podsChannel(), encodeNotice({ type: 'wake', account, sessionId }));
    }
    return 'released';
  }

  async bury(session: SessionKey, owner: Owner): Promise<boolean> {
    const held = this.store.get(this.keys.lock(session));
    if (held === null) return true;
    if (held !== ownerToken(owner) || this.store.subscribers(this.keys.podChannel(podName(owner))) > 0) return false;
    this.store.delete(this.keys.lock(session));
    return true;
  }

  async owners(sessions: readonly SessionKey[]): Promise<(Owner | null)[]> {
    return sessions.map((session) => {
      const token = this.store.get(this.keys.lock(session));
      return token === null ? null : parseOwnerToken(token);
    });
  }

  async holder(session: SessionKey): Promise<{ owner: Owner; leaseRemainingMs: number } | null> {
    const token = this.store.get(this.keys.lock(session));
    const leaseRemainingMs = this.store.ttlMs(this.keys.lock(session));
    return token === null || leaseRemainingMs === null ? null : { owner: parseOwnerToken(token), leaseRemainingMs };
  }

  private holds(session: SessionKey, owner: Owner): boolean {
    const intact = this.keys.intact(partitionOf(session));
    return holds(this.store, this.keys.lock(session), intact, ownerToken(owner), this.leaseTtlMs);
  }
}
