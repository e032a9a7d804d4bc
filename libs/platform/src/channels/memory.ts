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

  onResubscribed(): void {
    // Subscriptions inside the process are never lost.
  }
}
