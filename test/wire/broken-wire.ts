import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { WireLink } from './wire-link.js';

/** A TCP relay in front of a server, that a test can break in the ways that wires break. */
export class BrokenWire {
  private readonly links = new Set<WireLink>();
  private losing = false;
  private silent = false;
  private refusing = false;
  private delayMs = 0;

  private constructor(
    private readonly server: Server,
    readonly port: number,
    /** Where the server is reached by way of this wire. */
    readonly url: string,
  ) {}

  /** @param port where the server listens on this machine */
  static async to(port: number, scheme: 'redis' | 'mysql' = 'redis'): Promise<BrokenWire> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    const wire = new BrokenWire(server, address.port, `${scheme}://127.0.0.1:${address.port}`);
    server.on('connection', (client) => wire.link(client, port));
    return wire;
  }

  /** The server's URL with the address of this wire in it: user, database and all else stay. */
  through(url: string): string {
    const changed = new URL(url);
    changed.host = `127.0.0.1:${this.port}`;
    return changed.href;
  }

  /** How many connections stand. */
  get standing(): number {
    return this.links.size;
  }

  /** The next reply is lost and its connection breaks: what was asked has happened. */
  loseNextReply(): void {
    this.losing = true;
  }

  /** From now on nothing passes, on connections that stand and on new ones, and neither side is told. */
  goSilent(): void {
    this.silent = true;
    for (const link of this.links) link.hold();
  }

  /** New connections are served again, by the server and at once; the silent ones stay silent. */
  recover(): void {
    this.silent = false;
    this.refusing = false;
  }

  /** As `recover`, and the silent connections go on: what was sent meanwhile arrives now. */
  goOn(): void {
    this.recover();
    for (const link of this.links) link.release();
  }

  /** Whatever is sent from now on arrives so much later, either way. 0: at once. */
  delay(ms: number): void {
    this.delayMs = ms;
  }

  /** Every connection that stands breaks. New ones are served. */
  cut(): void {
    for (const link of this.links) link.cut();
  }

  /** New connections break as soon as they stand, until `recover`. */
  refuse(): void {
    this.refusing = true;
  }

  async close(): Promise<void> {
    this.server.close();
    this.cut();
    await once(this.server, 'close');
  }

  private link(client: Socket, port: number): void {
    if (this.refusing) return void client.on('error', () => undefined).resetAndDestroy();
    const link = new WireLink(client, port, {
      delayMs: () => this.delayMs,
      losesReply: () => {
        const { losing } = this;
        this.losing = false;
        return losing;
      },
      onEnd: () => this.links.delete(link),
    });
    this.links.add(link);
    if (this.silent) link.hold();
  }
}
