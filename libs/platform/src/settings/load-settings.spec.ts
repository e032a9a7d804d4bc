import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { loadSettings, SettingsError } from './load-settings.js';

function faults(env: Record<string, string>): readonly string[] {
  try {
    loadSettings(env);
    return [];
  } catch (error) {
    if (error instanceof SettingsError) return error.faults;
    throw error;
  }
}

const TOGETHER = {
  REDIS_URL: 'redis://127.0.0.1:6379',
  DATABASE_URL: 'mysql://root@127.0.0.1:3306/butler',
  AUTH_MODE: 'dev',
};

const FILE = import.meta.filename;

describe('settings', () => {
  it('start embedded, for development, from an empty environment', () => {
    const settings = loadSettings({});
    expect(settings).toMatchObject({ port: 3000, host: '127.0.0.1', authMode: 'dev', agent: 'local', redisUrl: null });
    expect(settings).toMatchObject({
      embedded: true,
      roles: ['api', 'actors'],
      leaseTtlMs: 30_000,
      shutdownLingerMs: 0,
    });
    expect(settings.podId).toMatch(/^[A-Za-z0-9._~-]{1,128}$/);
  });

  it('count an empty variable as not set', () => {
    expect(loadSettings({ PORT: '', REDIS_URL: '', AUTH_MODE: '' })).toMatchObject({ port: 3000, redisUrl: null });
  });

  it('take what is given', () => {
    const settings = loadSettings({
      ...TOGETHER,
      PORT: '0',
      ROLES: ' api',
      ALLOWED_HOSTS: 'a.test, b.test',
      LEASE_TTL_MS: '3000',
      LEASE_RENEW_MS: '1000',
    });
    expect(settings).toMatchObject({ port: 0, roles: ['api'], allowedHosts: ['a.test', 'b.test'], leaseTtlMs: 3000 });
    expect(settings).toMatchObject({ embedded: false, shutdownLingerMs: 5000, host: '127.0.0.1' });
  });

  it.each([
    [{ PORT: '70000' }, /^PORT=70000: use a whole number from 0 to 65535$/],
    [{ PORT: '3000x' }, /^PORT=3000x: /],
    [{ PORT: '-1' }, /^PORT=-1: /],
    [{ PORT: '1e3' }, /^PORT=1e3: /],
    [{ PORT: ' ' }, /^PORT= : /],
    [{ ROLES: 'api,cook' }, /^ROLES=api,cook: use one or more of: api, actors/],
    [{ ROLES: ',' }, /^ROLES=,: name at least one/],
    [{ LOG_LEVEL: 'loud' }, /^LOG_LEVEL=loud: use one of: fatal/],
    [{ AUTH_MODE: 'none' }, /^AUTH_MODE=none: use dev$/],
    [{ AUTH_MODE: 'jwt' }, /^AUTH_MODE=jwt is not available yet: set AUTH_MODE=dev/],
    [{ NODE_ENV: 'production' }, /^AUTH_MODE=dev with NODE_ENV=production/],
    [{ AGENT: 'oracle' }, /^AGENT=oracle: use one of: local, script$/],
    [{ AGENT: 'script', SCRIPT_DIR: FILE }, /^SCRIPT_DIR=.* is not a folder: name a folder/],
    [
      { AGENT: 'script', SCRIPT_DIR: `${FILE}/x/y` },
      /^SCRIPT_DIR=.*\/x\/y cannot be made: .*\.ts is not a folder: name/,
    ],
    [{ ROLES: 'api' }, /^ROLES=api without REDIS_URL: nobody else would run the turns of this pod; add actors, or set/],
    [{ AGENT: 'model' }, /^AGENT=model is not available yet: set AGENT=local$/],
    [
      { MODEL_BASE_URL: 'http://localhost:1' },
      /^MODEL_BASE_URL=http:\/\/localhost:1: the model agent is not available yet/,
    ],
    [{ POD_ID: 'a:b' }, /^POD_ID=a:b: use 1 to 128 characters/],
    [{ POD_ID: '..' }, /^POD_ID=\.\.: /],
    [{ POD_ID: 'pod\n' }, /^POD_ID=pod\n: /],
    [{ POD_ID: 'x'.repeat(129) }, /^POD_ID=x+: /],
    [
      { LEASE_TTL_MS: '2000', LEASE_RENEW_MS: '1000' },
      /^LEASE_RENEW_MS=1000 with LEASE_TTL_MS=2000: renew in less than half/,
    ],
    [
      { SHUTDOWN_GRACE_MS: '1000', SHUTDOWN_LINGER_MS: '1000' },
      /^SHUTDOWN_LINGER_MS=1000 with SHUTDOWN_GRACE_MS=1000: /,
    ],
    [{ DATABASE_URL: 'postgres://x/y' }, /^DATABASE_URL=postgres:\/\/x\/y: use mysql:/],
    [{ ...TOGETHER, DATABASE_URL: 'mysql://host' }, /^DATABASE_URL=mysql:\/\/host: name the database/],
    [{ DATABASE_URL: 'sqlite:' }, /^DATABASE_URL=sqlite:: use mysql/],
    [
      { DATABASE_URL: TOGETHER.DATABASE_URL, AUTH_MODE: 'dev' },
      /^DATABASE_URL=mysql:\/\/… without REDIS_URL: set REDIS_URL/,
    ],
    [{ REDIS_URL: TOGETHER.REDIS_URL, AUTH_MODE: 'dev' }, /^REDIS_URL without a MySQL DATABASE_URL: set DATABASE_URL/],
    [
      { ...TOGETHER, REDIS_URL: 'redis+cluster://a:1,b:2' },
      /^REDIS_URL=redis\+cluster:\/\/a:1,b:2: Cluster and Sentinel are not/,
    ],
    [{ ...TOGETHER, REDIS_URL: 'redis+sentinel://a:1/m' }, /Cluster and Sentinel are not available yet/],
    [{ ...TOGETHER, REDIS_URL: 'localhost:6379' }, /^REDIS_URL=localhost:6379: use redis:\/\//],
    [{ REDIS_KEY_PREFIX: '{x}' }, /^REDIS_KEY_PREFIX=\{x\}: /],
    [{ RATE_LIMIT_PER_MINUTE: '600' }, /^RATE_LIMIT_PER_MINUTE=600: not available yet/],
  ])('refuse %j in one line', (env, line) => {
    expect(faults(env)).toEqual([expect.stringMatching(line)]);
  });

  it('refuse what is for development only in production', () => {
    expect(faults({ NODE_ENV: 'production', AGENT: 'script' })).toHaveLength(2);
  });

  it('take a SCRIPT_DIR that can be made, and do not make it; without the script agent they do not look', () => {
    const dir = join(tmpdir(), `butler-settings-${process.pid}`, 'a', 'b');
    expect(loadSettings({ AGENT: 'script', SCRIPT_DIR: dir }).scriptDir).toBe(dir);
    expect(existsSync(dir)).toBe(false);
    expect(loadSettings({ SCRIPT_DIR: FILE }).agent).toBe('local');
  });

  it('tell every fault at once, and each once', () => {
    expect(faults({ PORT: 'x', LEASE_TTL_MS: 'y', LOG_LEVEL: 'z' })).toHaveLength(3);
  });

  it('do not tell passwords', () => {
    expect(faults({ DATABASE_URL: 'mysql://root:hunter2@host' }).join()).not.toContain('hunter2');
    expect(faults({ REDIS_URL: 'redis+cluster://u:hunter2@h:1' }).join()).not.toContain('hunter2');
  });
});
