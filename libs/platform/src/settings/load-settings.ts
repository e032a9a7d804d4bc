import { hostname } from 'node:os';
import { plainToInstance } from 'class-transformer';
import { validateSync } from 'class-validator';
import { settingsOf } from './setting.decorators.js';
import { checkFolder, podIdOf } from './setting-checks.js';
import { Settings } from './settings.js';

/** Every fault of the environment at once, one clear line each. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';

  constructor(readonly faults: readonly string[]) {
    super(faults.join('\n'));
  }
}

const LINGER_MS = 5000;

/** The settings as the environment says. @throws SettingsError when any value, or any pair of them, is faulty */
export function loadSettings(env: Readonly<Record<string, string | undefined>>): Settings {
  const declared = settingsOf(Settings);
  const given = Object.fromEntries(
    declared.flatMap(({ property, variable }) => (env[variable] ? [[property, env[variable]]] : [])),
  );
  const settings = Object.assign(new Settings(), plainToInstance(Settings, given, { exposeUnsetFields: false }));
  fillIn(settings, new Set(Object.keys(given)));
  const variables = new Map(declared.map(({ property, variable }) => [property, variable]));
  const faults = validateSync(settings, { stopAtFirstError: true }).map(
    ({ property, constraints }) =>
      `${variables.get(property)}=${withoutPassword(env[variables.get(property)!])}: ${Object.values(constraints ?? {})[0]}`,
  );
  const faulty = new Set(faults.map((fault) => fault.slice(0, fault.indexOf('='))));
  // A pair with a member that is faulty by itself has been told of already.
  for (const { variables: pair, fault } of impossiblePairs(settings)) {
    if (!pair.some((variable) => faulty.has(variable))) faults.push(fault);
  }
  if (faults.length > 0) throw new SettingsError(faults);
  return settings;
}

function withoutPassword(value = ''): string {
  return value.replace(/(?<=:\/\/)[^/]*(?=@)/, '…');
}

/** What applies to variables that are not set and whose default depends on others. */
function fillIn(settings: Settings, given: ReadonlySet<string>): void {
  if (!given.has('podId')) settings.podId = podIdOf(hostname());
  if (!given.has('authMode')) settings.authMode = settings.embedded ? 'dev' : 'jwt';
  if (!given.has('host')) settings.host = settings.authMode === 'dev' ? '127.0.0.1' : '0.0.0.0';
  if (!given.has('shutdownLingerMs')) {
    settings.shutdownLingerMs = settings.embedded ? 0 : Math.min(LINGER_MS, Math.floor(settings.shutdownGraceMs / 5));
  }
}

function impossiblePairs(settings: Settings): { variables: string[]; fault: string }[] {
  const production = settings.nodeEnv === 'production';
  const mysql = settings.databaseUrl.startsWith('mysql:');
  const scriptDirFault =
    settings.agent === 'script' && settings.scriptDir !== null ? checkFolder(settings.scriptDir) : null;
  const pairs: [boolean, string[], string][] = [
    [
      settings.redisUrl !== null && !mysql,
      ['REDIS_URL', 'DATABASE_URL'],
      'REDIS_URL without a MySQL DATABASE_URL: set DATABASE_URL=mysql://… as well, or unset REDIS_URL to run one pod by itself',
    ],
    [
      settings.redisUrl === null && mysql,
      ['REDIS_URL', 'DATABASE_URL'],
      'DATABASE_URL=mysql://… without REDIS_URL: set REDIS_URL=redis://… as well, or unset DATABASE_URL to run one pod by itself',
    ],
    [
      settings.embedded && !mysql && !settings.roles.includes('actors'),
      ['ROLES', 'REDIS_URL', 'DATABASE_URL'],
      `ROLES=${settings.roles.join(',')} without REDIS_URL: nobody else would run the turns of this pod; add actors, or ` +
        `set REDIS_URL and a MySQL DATABASE_URL`,
    ],
    [
      settings.authMode === 'jwt',
      ['AUTH_MODE'],
      'AUTH_MODE=jwt is not available yet: set AUTH_MODE=dev, and let nobody reach this pod but callers you trust',
    ],
    [
      settings.authMode === 'dev' && production,
      ['AUTH_MODE'],
      'AUTH_MODE=dev with NODE_ENV=production: dev believes every caller; unset NODE_ENV, this is no production',
    ],
    [
      settings.agent === 'script' && production,
      ['AGENT'],
      'AGENT=script with NODE_ENV=production: the script agent is for tests; set AGENT=local',
    ],
    [
      scriptDirFault !== null,
      ['SCRIPT_DIR', 'AGENT'],
      `SCRIPT_DIR=${settings.scriptDir} ${scriptDirFault}: name a folder that this process can write to`,
    ],
    [settings.agent === 'model', ['AGENT'], 'AGENT=model is not available yet: set AGENT=local'],
    [
      settings.leaseRenewMs * 2 >= settings.leaseTtlMs,
      ['LEASE_RENEW_MS', 'LEASE_TTL_MS'],
      `LEASE_RENEW_MS=${settings.leaseRenewMs} with LEASE_TTL_MS=${settings.leaseTtlMs}: renew in less than half of the TTL, ` +
        `so that one lost renewal does not lose the lease`,
    ],
    [
      settings.shutdownLingerMs >= settings.shutdownGraceMs,
      ['SHUTDOWN_LINGER_MS', 'SHUTDOWN_GRACE_MS'],
      `SHUTDOWN_LINGER_MS=${settings.shutdownLingerMs} with SHUTDOWN_GRACE_MS=${settings.shutdownGraceMs}: linger for less than the grace`,
    ],
  ];
  return pairs.flatMap(([impossible, variables, fault]) => (impossible ? [{ variables, fault }] : []));
}
