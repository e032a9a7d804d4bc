import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { type Service, startMariaDb, startRedis } from '../../../tools/services.mjs';
import type { GivenServers, ServersPlace } from '../../e2e/harness/places.js';
import { BrokenWire } from '../../wire/broken-wire.js';

export interface ServersWanted {
  /** A database server of the drill's own, to be stopped; else a database on the one that the environment names. */
  ownLedger?: boolean;
  /** Pods reach both servers over wires that the drill can break. */
  onWires?: boolean;
}

/** The servers below the pods of one drill, and what the drill does to them. */
export class DrillServers {
  wires: { redis: BrokenWire; ledger: BrokenWire } | null = null;
  private redis!: Service;
  private ledger: Service | null = null;
  private readonly ledgerDir = mkdtempSync(join(tmpdir(), 'butler-drill-'));

  static async open({ ownLedger = false, onWires = false }: ServersWanted): Promise<DrillServers> {
    const servers = new DrillServers();
    servers.redis = await startRedis();
    if (ownLedger) servers.ledger = await startMariaDb({ dir: servers.ledgerDir });
    if (onWires) await servers.putWires();
    return servers;
  }

  /** For whoever looks on: past the wires. */
  get given(): GivenServers {
    return { redisUrl: this.redis.url, ...(this.ledger && { databaseUrl: this.ledger.url }) };
  }

  /** What leads a pod to `place`, over the wires where there are some. */
  settingsFor({ settings }: ServersPlace): Record<string, string> {
    if (!this.wires) return settings;
    const { redis, ledger } = this.wires;
    return { ...settings, REDIS_URL: redis.url, DATABASE_URL: ledger.through(settings['DATABASE_URL']!) };
  }

  async flush(): Promise<void> {
    const redis = new Redis(this.redis.url);
    await redis.flushall();
    redis.disconnect();
  }

  /** Redis ends and comes back empty at the same address. */
  async restartRedis(downMs: number): Promise<void> {
    await this.redis.stop();
    await pause(downMs);
    this.redis = await startRedis({ port: this.redis.port });
  }

  /** The ledger's server ends and comes back with its data at the same address. */
  async restartLedger(downMs: number): Promise<void> {
    const { port } = this.ledger!;
    await this.ledger!.stop();
    await pause(downMs);
    this.ledger = await startMariaDb({ dir: this.ledgerDir, port });
  }

  async close(): Promise<void> {
    await Promise.all([this.wires?.redis.close(), this.wires?.ledger.close()]);
    await Promise.all([this.redis.stop(), this.ledger?.stop()]);
    rmSync(this.ledgerDir, { recursive: true, force: true });
  }

  private async putWires(): Promise<void> {
    const database = this.ledger?.url ?? process.env['TEST_DATABASE_URL'];
    if (!database) throw new Error('TEST_DATABASE_URL is not set: run it with npm run drill or npm test');
    const [redis, ledger] = await Promise.all([
      BrokenWire.to(this.redis.port),
      BrokenWire.to(Number(new URL(database).port), 'mysql'),
    ]);
    this.wires = { redis, ledger };
  }
}
