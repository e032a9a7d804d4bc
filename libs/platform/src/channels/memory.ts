import { type ChannelListener, Channels } from '../channels.js';
import type { MemoryStore } from '../memory-store.js';

/** Notifications inside one process. Each is delivered in a microtask of its own, never inside `publish`. */
export class MemoryChannels extends Channels {
  constructor(private readonly store: MemoryStore) {
    super();
  }

  publish(channel: string, message: string): Promise<void> {
    this.store.publish(channel, message);
    return Promise.resolve();
  }

  subscribe(channel: string, listener: ChannelListener): Promise<() => void> {
    return Promise.resolve(this.store.subscribe(channel, listener));
  }

  subscribers(channels: readonly string[]): Promise<{ connection: number; counts: number[] }> {
    const counts = channels.map((channel) => this.store.subscribers(channel));
    return Promise.resolve({ connection: 0, counts });
  }

  subscribed(prefix: string): Promise<string[]> {
    return Promise.resolve(this.store.subscribed(prefix));
  }

  onLost(): void {
    // Subscriptions inside the process are never lost.
  }

  onResubscribed(): void {
    // Nor do they come back.
  }
}
