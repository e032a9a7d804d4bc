import { connect, type Socket } from 'node:net';

export interface WireState {
  /** How much later than now what is sent now arrives. */
  delayMs(): number;
  /** Asked at each reply; whether this one is lost, and the connection with it. */
  losesReply(): boolean;
  onEnd(): void;
}

/** One client's connection through a wire, with its other half to the server. */
export class WireLink {
  private readonly ways: [Way, Way];

  constructor(client: Socket, port: number, state: WireState) {
    const server = connect(port, '127.0.0.1');
    this.ways = [new Way(client, server), new Way(server, client)];
    for (const [from, way] of [
      [client, this.ways[0]],
      [server, this.ways[1]],
    ] as const) {
      from.setNoDelay(true);
      from.on('error', () => this.cut());
      from.on('close', () => {
        way.carry('end', state.delayMs());
        if (client.destroyed && server.destroyed) state.onEnd();
      });
      from.on('data', (chunk: Buffer) => {
        if (from === server && state.losesReply()) return this.cut();
        way.carry(chunk, state.delayMs());
      });
    }
  }

  hold(): void {
    for (const way of this.ways) way.hold();
  }

  release(): void {
    for (const way of this.ways) way.release();
  }

  cut(): void {
    for (const way of this.ways) way.cut();
  }
}

/** One direction: what goes in comes out in the same order, each piece when its time has come. */
class Way {
  private readonly underWay: { piece: Buffer | 'end'; dueMs: number }[] = [];
  private timer: NodeJS.Timeout | undefined;
  private held = false;

  constructor(
    private readonly from: Socket,
    private readonly to: Socket,
  ) {}

  carry(piece: Buffer | 'end', delayMs: number): void {
    this.underWay.push({ piece, dueMs: performance.now() + delayMs });
    this.deliver();
  }

  hold(): void {
    this.held = true;
    this.from.pause();
  }

  release(): void {
    this.held = false;
    this.from.resume();
    this.deliver();
  }

  cut(): void {
    clearTimeout(this.timer);
    this.underWay.length = 0;
    this.from.destroy();
    this.to.destroy();
  }

  private deliver(): void {
    clearTimeout(this.timer);
    for (let next = this.underWay[0]; next && !this.held; next = this.underWay[0]) {
      const leftMs = next.dueMs - performance.now();
      if (leftMs > 0) {
        this.timer = setTimeout(() => this.deliver(), leftMs);
        return;
      }
      this.underWay.shift();
      if (next.piece === 'end') this.to.destroy();
      else if (!this.to.destroyed) this.to.write(next.piece);
    }
  }
}
