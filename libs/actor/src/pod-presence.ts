import { Inject, Injectable, Logger } from '@nestjs/common';
import { decodeNotice, encodeNotice, KeyNames, podName } from '#protocol';
import {
  Channels,
  Clock,
  PodIdentity,
  PresumedDead,
  Randomness,
  Settings,
  StepPoints,
  type Timer,
  UnavailableError,
} from '#platform';

type PresenceSettings = Pick<Settings, 'presenceCheckMs' | 'presenceMisses' | 'sweepIntervalMs' | 'leaseTtlMs'>;

/** How long pods wait for each other, at most, before they look at what a dead one has left: no herd. */
const SPREAD_MS = 50;
/** So many pods are remembered that have never been seen on the present connection. */
const UNSEEN_MAX = 1000;

interface Known {
  /** The connection on which it was seen subscribed; null while it was not. */
  seenOn: number | null;
  /** Looks in a row that found nobody on its channel. */
  misses: number;
}

/**
 * Notices pods that die without a word. A process that dies closes its connections at once, so nobody is subscribed to its
 * channel any more, while one that only stands still stays subscribed.
 *
 * Owns: which pods are known and when one is taken for dead. Does not own: what follows (the listeners), or the lock,
 * which is removed only by a step that asks again. A pod counts as missing only if it was seen on this very connection:
 * after Redis was restarted nobody is missed who has not been back yet. Keeps I1 by leaving it to the fence.
 */
@Injectable()
export class PodPresence {
  private readonly logger = new Logger(PodPresence.name);
  private readonly known = new Map<string, Known>();
  private readonly deathListeners: (() => void)[] = [];
  private readonly ends: (() => void)[] = [];
  private readonly timers: Timer[] = [];
  private readonly own: string;
  private looking = false;

  constructor(
    @Inject(Settings) private readonly settings: PresenceSettings,
    @Inject(PodIdentity) pod: PodIdentity,
    @Inject(KeyNames) private readonly keys: KeyNames,
    @Inject(Channels) private readonly channels: Channels,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Randomness) private readonly randomness: Randomness,
    @Inject(StepPoints) private readonly steps: StepPoints,
    @Inject(PresumedDead) private readonly dead: PresumedDead,
  ) {
    this.own = podName(pod);
  }

  /** Called back each time that a pod is taken for dead, a little later on each pod. */
  onDeath(listener: () => void): void {
    this.deathListeners.push(listener);
  }

  /** To be called when this pod hears on its own channel. */
  async start(): Promise<void> {
    if (this.settings.presenceCheckMs === 0) return;
    this.ends.push(await this.channels.subscribe(this.keys.podsChannel(), (text) => this.hear(text)));
    this.channels.onResubscribed(() => void this.say('hello'));
    this.timers.push(
      this.clock.every(this.settings.presenceCheckMs, () => void this.look()),
      this.clock.every(this.settings.sweepIntervalMs, () => void this.learn()),
    );
    await this.say('hello');
    await this.learn();
  }

  /** Says goodbye, so that nobody takes this pod for dead. */
  async stop(): Promise<void> {
    for (const timer of this.timers.splice(0)) timer.cancel();
    for (const end of this.ends.splice(0)) end();
    if (this.settings.presenceCheckMs > 0) await this.say('bye');
  }

  /** One look at all known pods: one call, whatever their number. */
  async look(): Promise<void> {
    if (this.looking || this.known.size === 0) return;
    this.looking = true;
    try {
      const pods = [...this.known.keys()];
      const { connection, counts } = await this.channels.subscribers(pods.map((pod) => this.keys.podChannel(pod)));
      pods.forEach((pod, at) => this.judge(pod, connection, counts[at] ?? 0));
      void this.steps.reach('presence.looked');
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
      // Looks count in a row only.
      for (const known of this.known.values()) known.misses = 0;
    } finally {
      this.looking = false;
    }
  }

  private judge(pod: string, connection: number, subscribers: number): void {
    const known = this.known.get(pod);
    if (!known) return;
    if (subscribers > 0) {
      this.known.set(pod, { seenOn: connection, misses: 0 });
      if (this.dead.revive(pod)) this.logger.warn({ revived: pod }, 'a pod that was taken for dead lives');
      return;
    }
    if (known.seenOn !== connection) return;
    known.misses++;
    if (known.misses >= this.settings.presenceMisses) this.presumeDead(pod);
  }

  private presumeDead(pod: string): void {
    this.known.delete(pod);
    this.dead.declare(pod, this.settings.leaseTtlMs);
    this.logger.warn({ gone: pod }, 'a pod is gone without a word: what it owned goes on elsewhere');
    void this.steps.reach('presence.dead', { pod });
    const waitMs = SPREAD_MS * this.randomness.fraction();
    this.clock.after(waitMs, () => this.deathListeners.forEach((listener) => listener()));
  }

  private hear(text: string): void {
    const notice = decodeNotice(text);
    if (notice.type === 'hello') this.meet(notice.pod);
    else if (notice.type === 'bye') this.known.delete(notice.pod);
  }

  private meet(pod: string): void {
    if (pod === this.own || this.known.has(pod) || this.known.size >= UNSEEN_MAX) return;
    this.known.set(pod, { seenOn: null, misses: 0 });
  }

  /** Finds pods whose greeting was missed, and forgets those that were never seen on this connection. */
  private async learn(): Promise<void> {
    try {
      const prefix = this.keys.podChannel('');
      const subscribed = (await this.channels.subscribed(prefix)).map((channel) => channel.slice(prefix.length));
      for (const [pod, { seenOn }] of this.known)
        if (seenOn === null && !subscribed.includes(pod)) this.known.delete(pod);
      for (const pod of subscribed) this.meet(pod);
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
    }
  }

  private say(type: 'hello' | 'bye'): Promise<void> {
    return this.channels.publish(this.keys.podsChannel(), encodeNotice({ type, pod: this.own }));
  }
}
