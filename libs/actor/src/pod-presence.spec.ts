import { beforeEach, describe, expect, it } from '@jest/globals';
import { encodeNotice, KeyNames } from '#protocol';
import {
  type ChannelListener,
  Channels,
  PodIdentity,
  PresumedDead,
  Randomness,
  StepPoints,
  UnavailableError,
} from '#platform';
import { ManualClock } from '#test-kit';
import { PodPresence } from './pod-presence.js';

const SETTINGS = { presenceCheckMs: 100, presenceMisses: 3, sweepIntervalMs: 5_000, leaseTtlMs: 30_000 };
const SPREAD_MS = 50;
const keys = new KeyNames('t:');

/** Redis as the test has it: who is subscribed, over which connection it is told, and whether it answers. */
class ToldChannels extends Channels {
  readonly present = new Set<string>();
  readonly said: string[] = [];
  connection = 0;
  away = false;
  looks = 0;
  private hear: ChannelListener = () => undefined;
  private resubscribed: () => void = () => undefined;

  override publish(_channel: string, message: string): Promise<void> {
    this.said.push(message);
    return Promise.resolve();
  }

  override subscribe(_channel: string, listener: ChannelListener): Promise<() => void> {
    this.hear = listener;
    return Promise.resolve(() => undefined);
  }

  override async subscribers(channels: readonly string[]): Promise<{ connection: number; counts: number[] }> {
    this.looks++;
    if (this.away) throw new UnavailableError('redis', 'away');
    return { connection: this.connection, counts: channels.map((name) => (this.present.has(name) ? 1 : 0)) };
  }

  override async subscribed(prefix: string): Promise<string[]> {
    return [...this.present].filter((name) => name.startsWith(prefix));
  }

  override onLost(): void {
    // The keeper listens, not the presence.
  }

  override onResubscribed(listener: () => void): void {
    this.resubscribed = listener;
  }

  tell(type: 'hello' | 'bye', pod: string): void {
    this.hear(encodeNotice({ type, pod }));
  }

  comeBack(): void {
    this.resubscribed();
  }
}

class Half extends Randomness {
  override id(): string {
    return 'id';
  }

  override fraction(): number {
    return 0.5;
  }
}

describe('the presence of pods', () => {
  let channels: ToldChannels;
  let clock: ManualClock;
  let dead: PresumedDead;
  let presence: PodPresence;
  let deaths: number;
  const other = 'b:1';

  beforeEach(async () => {
    channels = new ToldChannels();
    clock = new ManualClock();
    dead = new PresumedDead(clock);
    deaths = 0;
    presence = await started();
  });

  const started = async (settings = SETTINGS): Promise<PodPresence> => {
    const made = new PodPresence(
      ...([settings, new PodIdentity('a', '1'), keys, channels, clock, new Half(), new StepPoints(), dead] as const),
    );
    made.onDeath(() => deaths++);
    await made.start();
    return made;
  };
  const join = (pod: string): void => {
    channels.present.add(keys.podChannel(pod));
    channels.tell('hello', pod);
  };
  const vanish = (pod: string): void => void channels.present.delete(keys.podChannel(pod));
  const looks = (count: number): Promise<void> => clock.advance(count * SETTINGS.presenceCheckMs);

  it('takes a pod for dead that was seen and is missed three times in a row, for as long as a lease', async () => {
    join(other);
    await looks(1);
    vanish(other);
    await looks(2);
    expect([dead.has(other), deaths]).toEqual([false, 0]);
    await looks(1);
    expect(dead.has(other)).toBe(true);
    await clock.advance(SPREAD_MS);
    expect(deaths).toBe(1);
    await clock.advance(SETTINGS.leaseTtlMs);
    expect(dead.has(other)).toBe(false);
  });

  it('counts only misses in a row: one look that finds it, or no answer, begins anew', async () => {
    join(other);
    await looks(1);
    vanish(other);
    await looks(2);
    channels.away = true;
    await looks(3);
    channels.away = false;
    await looks(2);
    join(other);
    await looks(1);
    vanish(other);
    await looks(2);
    expect(dead.has(other)).toBe(false);
  });

  it('misses nobody who was not seen on this very connection', async () => {
    join(other);
    await looks(1);
    // Redis was restarted: nobody is subscribed, and some take long to come back.
    channels.connection++;
    vanish(other);
    await looks(20);
    expect(dead.has(other)).toBe(false);
    join(other);
    await looks(1);
    vanish(other);
    await looks(3);
    expect(dead.has(other)).toBe(true);
  });

  it('finds pods whose greeting it has missed, at the next sweep', async () => {
    channels.present.add(keys.podChannel(other));
    await clock.advance(SETTINGS.sweepIntervalMs);
    await looks(1);
    vanish(other);
    await looks(3);
    expect(dead.has(other)).toBe(true);
  });

  it('does not miss a pod that has said goodbye', async () => {
    join(other);
    await looks(1);
    channels.tell('bye', other);
    vanish(other);
    await looks(5);
    expect(dead.has(other)).toBe(false);
  });

  it('takes a pod that comes back for alive again', async () => {
    join(other);
    await looks(1);
    vanish(other);
    await looks(3);
    join(other);
    await looks(1);
    expect(dead.has(other)).toBe(false);
  });

  it('greets when it starts and whenever it can be heard again, and says goodbye', async () => {
    channels.comeBack();
    await presence.stop();
    const hello = encodeNotice({ type: 'hello', pod: 'a:1' });
    expect(channels.said).toEqual([hello, hello, encodeNotice({ type: 'bye', pod: 'a:1' })]);
  });

  it('asks nothing while it knows nobody, and can be switched off', async () => {
    await looks(10);
    expect(channels.looks).toBe(0);
    await presence.stop();
    const said = channels.said.length;
    await started({ ...SETTINGS, presenceCheckMs: 0 });
    join(other);
    await looks(10);
    expect([channels.looks, channels.said.length]).toEqual([0, said]);
  });
});
