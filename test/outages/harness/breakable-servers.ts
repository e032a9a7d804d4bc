import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Service, startMariaDb, startRedis } from '../../../tools/services.mjs';
import type { ServersPlace } from '../../e2e/harness/places.js';
import { Stage } from '../../e2e/harness/stage.js';
import { BrokenWire } from '../../wire/broken-wire.js';

/** One server of the tests' own: it can be killed and started again, with its data and at its address. */
class BreakableServer {
  private isUp = true;

  private constructor(
    private service: Service,
    private readonly again: (port: number) => Promise<Service>,
  ) {}

  static async start(start: (port?: number) => Promise<Service>): Promise<BreakableServer> {
    return new BreakableServer(await start(), start);
  }

  get url(): string {
    return this.service.url;
  }

  get port(): number {
    return this.service.port;
  }

  /** kill -9. Resolves when it is gone. */
  async kill(): Promise<void> {
    this.isUp = false;
    process.kill(this.service.pid, 'SIGKILL');
    await this.service.stop();
  }

  /** Starts it again after `kill`. */
  async restart(): Promise<void> {
    if (!this.isUp) this.service = await this.again(this.service.port);
    this.isUp = true;
  }

  stop(): Promise<void> {
    return this.service.stop();
  }
}

/** Wires to both servers, and the settings that lead a pod over them. */
interface Wires {
  redis: BrokenWire;
  ledger: BrokenWire;
  settings: Record<string, string>;
}

/** Redis and a database of one spec file's own. Each of its tests has a stage of its own on them. */
export class BreakableServers {
  private readonly dir = mkdtempSync(join(tmpdir(), 'butler-outages-'));
  redis!: BreakableServer;
  ledger!: BreakableServer;

  async start(): Promise<void> {
    this.redis = await BreakableServer.start((port) => startRedis({ port }));
    this.ledger = await BreakableServer.start((port) => startMariaDb({ dir: this.dir, port }));
  }

  async stop(): Promise<void> {
    await Promise.all([this.redis.stop(), this.ledger.stop()]);
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** A test on a stage and wires of its own. However it comes out, the servers run afterwards. */
  play(work: (stage: Stage<ServersPlace>, wires: Wires) => Promise<void>): () => Promise<void> {
    return async () => {
      const stage = await Stage.onServers({ redisUrl: this.redis.url, databaseUrl: this.ledger.url });
      const wires = await this.wire(stage.place);
      try {
        await stage.watch(() => work(stage, wires));
      } finally {
        await Promise.all([this.redis.restart(), this.ledger.restart()]);
        await stage.end();
        await Promise.all([wires.redis.close(), wires.ledger.close()]);
      }
    };
  }

  private async wire({ settings }: ServersPlace): Promise<Wires> {
    const [redis, ledger] = await Promise.all([
      BrokenWire.to(this.redis.port),
      BrokenWire.to(this.ledger.port, 'mysql'),
    ]);
    const led = { REDIS_URL: redis.url, DATABASE_URL: ledger.through(settings['DATABASE_URL']!) };
    return { redis, ledger, settings: led };
  }
}
