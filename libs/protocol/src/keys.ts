import type { Id, SessionKey } from './ids.js';
import { partitionOf, partitionTag } from './partition.js';

/**
 * The names of all keys and channels in Redis. Every key of a session carries its partition's tag, so that a script
 * touches one Cluster slot. Ids cannot contain `:`, `/` or braces, so two things never share a name.
 */
export class KeyNames {
  /** @param prefix stands before every key and channel, e.g. `butler:` */
  constructor(private readonly prefix: string) {}

  lock(session: SessionKey): string {
    return this.ofSession('lock', session);
  }

  pending(session: SessionKey): string {
    return this.ofSession('pending', session);
  }

  processing(session: SessionKey): string {
    return this.ofSession('processing', session);
  }

  /** The lifecycle record of a turn, in the partition of its session. */
  turn(session: SessionKey, turnId: Id): string {
    return `${this.prefix}${partitionTag(partitionOf(session))}:turn:${session.account}:${turnId}`;
  }

  ready(partition: number): string {
    return `${this.prefix}${partitionTag(partition)}:ready`;
  }

  intact(partition: number): string {
    return `${this.prefix}${partitionTag(partition)}:intact`;
  }

  /** One partition's turn at the reconciler: held for one pass, so that two pods do not do the same work. */
  reconciling(partition: number): string {
    return `${this.prefix}${partitionTag(partition)}:reconciling`;
  }

  /** The channel to one pod: wake, stop. */
  podChannel(pod: string): string {
    return `${this.prefix}pod:${pod}`;
  }

  /** The channel to all pods: work without an owner, partitions to renew. */
  podsChannel(): string {
    return `${this.prefix}pods`;
  }

  /** The channel to the watchers of a session. */
  liveChannel(session: SessionKey): string {
    return `${this.prefix}live:${session.account}:${session.sessionId}`;
  }

  private ofSession(kind: string, session: SessionKey): string {
    return `${this.prefix}${partitionTag(partitionOf(session))}:${kind}:${session.account}:${session.sessionId}`;
  }
}
