import type { Event, KeyNames, LiveDelta, SessionKey } from '#protocol';
import type { Channels } from '#platform';
import { LiveEvents, type LiveFrame } from '../live-events.js';

/** A frame over so many bytes travels without bodies. */
const LIVE_FRAME_MAX_BYTES = 64 * 1024;

/** Live frames as JSON on the session's channel. */
export class ChannelLiveEvents extends LiveEvents {
  constructor(
    private readonly channels: Channels,
    private readonly keys: KeyNames,
  ) {
    super();
  }

  committed(session: SessionKey, events: readonly Event[]): void {
    const last = events.at(-1);
    if (!last) return;
    if (this.send(session, { kind: 'events', events: [...events], lastSeq: last.seq })) return;
    this.send(session, { kind: 'events', events: [], lastSeq: last.seq });
  }

  delta(session: SessionKey, delta: LiveDelta): void {
    // One that is too large is left out: its text comes with the next stored piece.
    this.send(session, { kind: 'delta', delta });
  }

  follow(session: SessionKey, listener: (frame: LiveFrame) => void): Promise<() => void> {
    return this.channels.subscribe(this.keys.liveChannel(session), (message) =>
      listener(JSON.parse(message) as LiveFrame),
    );
  }

  /** Whether the frame was small enough to be sent. */
  private send(session: SessionKey, frame: LiveFrame): boolean {
    const message = JSON.stringify(frame);
    if (Buffer.byteLength(message) > LIVE_FRAME_MAX_BYTES) return false;
    void this.channels.publish(this.keys.liveChannel(session), message);
    return true;
  }
}
