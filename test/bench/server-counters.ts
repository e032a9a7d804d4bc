import { Redis } from 'ioredis';
import { type Connection, createConnection } from 'mysql2/promise';

export interface Counters {
  /** Commands that clients sent, those inside scripts not counted. */
  redisCalls: number;
  redisConnections: number;
  /** Packets with statements; several statements in one packet count once each. */
  sqlStatements: number;
  commits: number;
}

/** What the servers count themselves. */
export class ServerCounters {
  private constructor(
    private readonly redis: Redis,
    private readonly sql: Connection,
  ) {}

  static async open(urls: { redis: string; database: string }): Promise<ServerCounters> {
    return new ServerCounters(new Redis(urls.redis), await createConnection(urls.database));
  }

  async read(): Promise<Counters> {
    const stats = await this.redis.info('commandstats');
    const clients = await this.redis.info('clients');
    const calls = (name: string): number =>
      Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, 'm').exec(stats)?.[1] ?? 0);
    const [rows] = await this.sql.query("SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_commit', 'Questions')");
    const status = new Map(
      (rows as { Variable_name: string; Value: string }[]).map((row) => [row.Variable_name, Number(row.Value)]),
    );
    return {
      redisCalls: calls('evalsha') + calls('eval'),
      redisConnections: Number(/^connected_clients:(\d+)/m.exec(clients)?.[1]),
      sqlStatements: status.get('Questions')!,
      commits: status.get('Com_commit')!,
    };
  }

  async close(): Promise<void> {
    this.redis.disconnect();
    await this.sql.end();
  }
}
