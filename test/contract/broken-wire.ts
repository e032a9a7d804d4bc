import { connect, createServer, type Server, type Socket } from 'node:net';
import { once } from 'node:events';

/** A TCP relay in front of a server, that a test can break in the ways that wires break. */
export class BrokenWire {
  private readonly links = new Set<{ client: Socket; upstream: Socket }>();
  private losing = false;
  private silent = false;

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async to(port: number): Promise<BrokenWire> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    const wire = new BrokenWire(server, `redis://127.0.0.1:${address.port}`);
    server.on('connection', (client) => wire.link(client, port));
    return wire;
  }

  /** The next reply is lost and its connection breaks: what was asked has happened. */
  loseNextReply(): void {
    this.losing = true;
  }

  /** From now on nothing passes the connections that stand, and neither side is told. */
  goSilent(): void {
    this.silent = true;
    for (const { client, upstream } of this.links) {
      client.pause();
      upstream.pause();
    }
  }

  /** New connections are served again; the silent ones stay silent. */
  recover(): void {
    this.silent = false;
  }

  async close(): Promise<void> {
    this.server.close();
    for (const { client, upstream } of this.links) {
      client.destroy();
      upstream.destroy();
    }
    await once(this.server, 'close');
  }

  private link(client: Socket, port: number): void {
    const upstream = connect(port, '127.0.0.1');
    const link = { client, upstream };
    this.links.add(link);
    const cut = (): void => {
      client.destroy();
      upstream.destroy();
      this.links.delete(link);
    };
    for (const socket of [client, upstream]) socket.on('error', cut).on('close', cut).setNoDelay(true);
    client.on('data', (chunk) => upstream.write(chunk));
    upstream.on('data', (chunk) => {
      if (!this.losing) return void client.write(chunk);
      this.losing = false;
      cut();
    });
    if (this.silent) {
      client.pause();
      upstream.pause();
    }
  }
}
