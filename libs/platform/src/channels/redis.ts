import { type ChannelListener, Channels } from '../channels.js';
import type { Clock } from '../clock.js';
import type { RedisConnection } from '../redis/redis-connection.js';
import { UnavailableError } from '../unavailable.error.js';

/** How long `subscribe` waits for the confirmation. */
const CONFIRM_TIMEOUT_MS = 3_000;
/** How long to wait after Redis refused to subscribe. */
const RETRY_MS = 1_000;
/** How many channels one command subscribes. */
const SUBSCRIBE_BATCH = 500;

interface Topic {
  readonly listeners: Set<{ hear: ChannelListener }>;
  /** Those who wait for the confirmation; null once it has come. */
  waiting: Set<() => void> | null;
}

/**
 * Channels on the pod's one subscriber connection. Owns which channels are subscribed there: a channel is subscribed
 * with its first listener and given up with its last. After the connection was lost all are subscribed again.
 */
export class RedisChannels extends Channels {
  private readonly topics = new Map<string, Topic>();
  private readonly lostListeners: (() => void)[] = [];
  private readonly resubscribedListeners: (() => void)[] = [];
  /** Counts the connections for commands, on which subscribers are counted. */
  private commandConnection = 0;
  /** Counts the connections, so that a second try for an earlier one is dropped. */
  private connection = 0;

  constructor(
    private readonly redis: RedisConnection,
    private readonly clock: Clock,
  ) {
    super();
    redis.subscriber.on('message', (channel: string, message: string) => this.deliver(channel, message));
    redis.subscriber.on('ready', () => void this.resubscribe(++this.connection));
    redis.subscriber.on('close', () => this.lostListeners.forEach((listener) => listener()));
    redis.onReconnected(() => this.commandConnection++);
  }

  async publish(channel: string, message: string): Promise<void> {
    try {
      await this.redis.run((redis) => redis.publish(channel, message));
    } catch {
      // Only a hint: the sweep finds what it would have told.
    }
  }

  /** @throws UnavailableError when it is not confirmed within CONFIRM_TIMEOUT_MS; then nothing stays subscribed */
  async subscribe(channel: string, listener: ChannelListener): Promise<() => void> {
    const entry = { hear: listener };
    let topic = this.topics.get(channel);
    if (!topic) {
      topic = { listeners: new Set(), waiting: new Set() };
      this.topics.set(channel, topic);
      // A connection that is being made asks for all of them when it stands; asked any sooner, it would not get there.
      if (this.redis.subscriber.status === 'ready') this.ask([channel]).catch(() => undefined);
    }
    topic.listeners.add(entry);
    const end = (): void => this.remove(channel, topic, entry);
    try {
      await this.confirmation(topic);
    } catch (error) {
      end();
      throw error;
    }
    return end;
  }

  async subscribers(channels: readonly string[]): Promise<{ connection: number; counts: number[] }> {
    const answer = (await this.redis.run((redis) => redis.pubsub('NUMSUB', ...channels))) as (string | number)[];
    return { connection: this.commandConnection, counts: channels.map((_, at) => Number(answer[2 * at + 1])) };
  }

  async subscribed(prefix: string): Promise<string[]> {
    const pattern = `${prefix.replace(/[?*[\]\\^]/g, String.raw`\$&`)}*`;
    return (await this.redis.run((redis) => redis.pubsub('CHANNELS', pattern))) as string[];
  }

  onLost(listener: () => void): void {
    this.lostListeners.push(listener);
  }

  onResubscribed(listener: () => void): void {
    this.resubscribedListeners.push(listener);
  }

  private deliver(channel: string, message: string): void {
    for (const listener of [...(this.topics.get(channel)?.listeners ?? [])]) listener.hear(message);
  }

  private remove(channel: string, topic: Topic, entry: { hear: ChannelListener }): void {
    topic.listeners.delete(entry);
    if (topic.listeners.size > 0 || this.topics.get(channel) !== topic) return;
    this.topics.delete(channel);
    // On a connection that does not stand there is nothing to give up. Commands keep their order, so a channel that is
    // wanted again at once ends up subscribed.
    if (this.redis.subscriber.status === 'ready') this.redis.subscriber.unsubscribe(channel).catch(() => undefined);
  }

  private confirmation(topic: Topic): Promise<void> {
    const { waiting } = topic;
    if (!waiting) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const confirm = (): void => {
        timer.cancel();
        resolve();
      };
      const timer = this.clock.after(CONFIRM_TIMEOUT_MS, () => {
        waiting.delete(confirm);
        reject(new UnavailableError('redis', 'Redis did not confirm the subscription in time'));
      });
      waiting.add(confirm);
    });
  }

  /** Subscribes on the present connection and confirms whoever waits. Rejects when the connection does not stand. */
  private async ask(channels: readonly string[]): Promise<void> {
    const asked = channels.map((channel) => this.topics.get(channel));
    await this.redis.subscriber.subscribe(...channels);
    for (const topic of asked) {
      if (!topic?.waiting) continue;
      const { waiting } = topic;
      topic.waiting = null;
      for (const confirm of waiting) confirm();
    }
  }

  private async resubscribe(connection: number): Promise<void> {
    const channels = [...this.topics.keys()];
    try {
      for (let at = 0; at < channels.length; at += SUBSCRIBE_BATCH) {
        await this.ask(channels.slice(at, at + SUBSCRIBE_BATCH));
      }
    } catch {
      // Either the connection broke again, and the next one asks; or Redis refused for now.
      this.clock.after(RETRY_MS, () => {
        const stands = connection === this.connection && this.redis.subscriber.status === 'ready';
        if (stands) void this.resubscribe(connection);
      });
      return;
    }
    for (const listener of this.resubscribedListeners) listener();
  }
}
