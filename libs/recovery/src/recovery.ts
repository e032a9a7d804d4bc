import { Inject, Injectable, Logger } from '@nestjs/common';
import { Clock, type Timer, Settings } from '#platform';
import { PartitionFilling } from './partition-filling.js';
import { Reconciler } from './reconciler.js';

/**
 * Keeps Redis a copy of the ledger: fills what was lost, queues what was left out. Owns the one timer of both.
 */
@Injectable()
export class Recovery {
  private readonly logger = new Logger(Recovery.name);
  private timer: Timer | null = null;
  private looking: Promise<void> | null = null;
  private filling: Promise<number[]> | null = null;

  constructor(
    @Inject(Settings) private readonly settings: Pick<Settings, 'sweepIntervalMs'>,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(PartitionFilling) private readonly partitions: PartitionFilling,
    @Inject(Reconciler) private readonly reconciler: Reconciler,
  ) {}

  /** Fills what is missing at the start of this pod and goes on looking, now and at every sweep. */
  async start(): Promise<void> {
    this.timer = this.clock.every(this.settings.sweepIntervalMs, () => void this.look());
    void this.look();
    // The lines are a copy of the ledger then. What else the reconciler finds, it finds in time.
    await this.fill();
  }

  /** One look: partitions that Redis has lost, then turns that stand in no list. */
  look(): Promise<void> {
    // The reconciler may be at it for long. What is lost meanwhile does not wait for it.
    if (this.looking) void this.fill();
    this.looking ??= this.run().finally(() => {
      this.looking = null;
    });
    return this.looking;
  }

  async stop(): Promise<void> {
    this.timer?.cancel();
    await Promise.all([this.looking, this.filling]);
  }

  private async run(): Promise<void> {
    try {
      await this.reconciler.reconcile(await this.fill());
    } catch (error) {
      this.logger.warn({ error: String(error) }, 'the reconciler failed and is repeated at the next sweep');
    }
  }

  /** Answers the partitions that are intact. Never rejects. */
  private fill(): Promise<number[]> {
    const fill = async (): Promise<number[]> => {
      try {
        return await this.partitions.fillLost();
      } catch (error) {
        this.logger.warn({ error: String(error) }, 'the filling failed and is repeated at the next sweep');
        return [];
      }
    };
    this.filling ??= fill().finally(() => {
      this.filling = null;
    });
    return this.filling;
  }
}
