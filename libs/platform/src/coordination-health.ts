import { Inject, Injectable } from '@nestjs/common';
import { type Coordination, COORDINATION } from './coordination.js';
import { UnavailableError } from './unavailable.error.js';

/** How long a connection that was lost just now is waited for before coordination counts as away. */
const RECONNECT_WAIT_MS = 500;

/** Whether the pods can coordinate at present. */
@Injectable()
export class CoordinationHealth {
  constructor(@Inject(COORDINATION) private readonly coordination: Coordination) {}

  /** Passes at once, without a round trip, while the connection stands. @throws UnavailableError */
  async assertUp(): Promise<void> {
    if (this.coordination.kind === 'memory' || this.coordination.redis.ready) return;
    if (await this.ping(RECONNECT_WAIT_MS)) return;
    throw new UnavailableError('redis', 'Redis is unavailable: not connected');
  }

  /** Whether it answers within `timeoutMs`. Never rejects. */
  ping(timeoutMs: number): Promise<boolean> {
    return this.coordination.kind === 'memory' ? Promise.resolve(true) : this.coordination.redis.ping(timeoutMs);
  }
}
