import type { SessionKey } from '#protocol';
import { encodeNotice, type KeyNames } from '#protocol';
import type { Channels } from '#platform';

/**
 * Where whoever finds a session that has work and no owner, or this pod as its owner, hands it to. A hint: the sweep finds
 * it too.
 */
export abstract class WaitingWork {
  /** @param ownerEpoch the newest epoch that has claimed the session, where it has just been read from the ledger */
  abstract offer(session: SessionKey, ownerEpoch?: number): void;
}

/** Tells all pods. For a pod that runs no actors itself. */
export class AnnouncedWork extends WaitingWork {
  constructor(
    private readonly channels: Channels,
    private readonly keys: KeyNames,
  ) {
    super();
  }

  offer(session: SessionKey): void {
    void this.channels.publish(this.keys.podsChannel(), encodeNotice({ type: 'wake', ...session }));
  }
}
