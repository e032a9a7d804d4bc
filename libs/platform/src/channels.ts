export type ChannelListener = (message: string) => void;

/**
 * Notifications between pods: fire and forget. A message can be lost, late or doubled; whoever relies on one keeps a
 * sweep as well. One subscriber connection per pod, however many channels.
 */
export abstract class Channels {
  /** Says `message` to whoever listens now. Resolves when it was handed over; never rejects: it is only a hint. */
  abstract publish(channel: string, message: string): Promise<void>;

  /** Resolves once the subscription is confirmed. The answer ends it. Several listeners of one channel are fine. */
  abstract subscribe(channel: string, listener: ChannelListener): Promise<() => void>;

  /**
   * How many subscribers each of these channels has now, in one call. The number of the connection that answered differs
   * from another answer's when a connection was lost between the two.
   * @throws UnavailableError
   */
  abstract subscribers(channels: readonly string[]): Promise<{ connection: number; counts: number[] }>;

  /** The channels with subscribers whose names begin so. @throws UnavailableError */
  abstract subscribed(prefix: string): Promise<string[]>;

  /** Calls back each time that all subscriptions are lost. */
  abstract onLost(listener: () => void): void;

  /** Calls back after each time that all subscriptions had been lost and stand again: what was said between is lost. */
  abstract onResubscribed(listener: () => void): void;
}
