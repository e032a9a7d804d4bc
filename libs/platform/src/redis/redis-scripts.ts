import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';

/** Runs one script as one step. All keys are of one partition. @throws UnavailableError */
export type Script<Reply> = (keys: readonly string[], args: readonly (string | number)[]) => Promise<Reply>;

/** What runs commands: see RedisConnection. */
interface Runner {
  run<T>(command: (redis: Redis) => Promise<T>): Promise<T>;
}

/** The functions that every script may call. */
const SHARED = ['holds', 'grow', 'facts']
  .map((name) => readFileSync(new URL(`./scripts/${name}.lua`, import.meta.url), 'utf8'))
  .join('');

/**
 * The Lua scripts of one connection. Each is sent in full once per connection and by its digest from then on; a server
 * that has forgotten it is sent it again, also when many are under way. Scripts must be safe to repeat, as all calls of
 * RedisConnection.
 */
export class RedisScripts {
  constructor(private readonly connection: Runner) {}

  /** The script in this file. `Reply` is what its head says that it answers. */
  load<Reply>(file: URL): Script<Reply> {
    const lua = SHARED + readFileSync(file, 'utf8');
    const name = `script:${createHash('sha256').update(lua).digest('hex')}`;
    return (keys, args) =>
      this.connection.run((redis) => {
        if (!(name in redis)) redis.defineCommand(name, { lua });
        const scripts = redis as unknown as Record<string, (...args: (string | number)[]) => Promise<Reply>>;
        return scripts[name]!(keys.length, ...keys, ...args);
      });
  }
}
