import { Inject, Injectable } from '@nestjs/common';
import { LiveEvents } from '#event-ledger';
import { Handover } from '#message-queue';
import type { Reported } from './family.js';

/** Sees to it that a report which has been committed reaches its parent. What fails here, the reconciler mends. */
@Injectable()
export class Reports {
  constructor(
    @Inject(LiveEvents) private readonly live: LiveEvents,
    @Inject(Handover) private readonly handover: Handover,
  ) {}

  /** @param reported null: none was due */
  async deliver(reported: Reported | null): Promise<void> {
    if (!reported) return;
    const { turn, events, ownerEpoch } = reported;
    this.live.committed(turn, events);
    await this.handover.hand(turn, ownerEpoch);
  }
}
