// Finds the programs of Redis, MariaDB and nginx, and installs their Debian packages where that is possible.
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { run } from './checkout.mjs';
import { withLock } from './lock.mjs';

// An ordinary user's PATH leaves the sbin folders out, but anyone may run what is in them.
const FOLDERS = [...(process.env.PATH ?? '').split(delimiter), '/usr/local/sbin', '/usr/sbin', '/opt/homebrew/bin'];

const NAMED = ', or name a running one in ';
export const REDIS = { packages: ['redis-server'], programs: ['redis-server'], instead: `${NAMED}TEST_REDIS_URL` };
export const MARIADB = {
  packages: ['mariadb-server'],
  programs: ['mariadbd', 'mariadb-install-db'],
  instead: `${NAMED}TEST_DATABASE_URL`,
};
export const NGINX = { packages: ['nginx-light'], programs: ['nginx'], instead: '' };

/** The full path of each program of this service, by its name. */
export async function providePrograms(service, say = console.error) {
  const canInstall = process.getuid?.() === 0 && find('apt-get');
  const provide = async (holdsLock) => {
    if (canInstall && !findAll(service)) await install(service, holdsLock, say);
    const programs = findAll(service);
    if (!programs) throw new Error(missing(service));
    return programs;
  };
  if (!canInstall) return provide();
  // The look is under the lock too: programs are there some seconds before their installation is complete.
  return withLock('apt', () => say('Another process is installing Debian packages; waiting for it …'), provide);
}

function findAll({ programs }) {
  const found = programs.map((name) => [name, find(name)]);
  return found.every(([, path]) => path) ? Object.fromEntries(found) : undefined;
}

function find(name) {
  const isExecutable = (path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  };
  return FOLDERS.map((folder) => join(folder, name)).find(isExecutable);
}

const missing = ({ packages, programs, instead }) =>
  `${programs.join(' and ')} not found. Install it (Debian: apt-get install ${packages.join(' ')})${instead}.`;

// While policy-rc.d answers 101 the packages do not start services of their own; an existing policy is left alone.
const INSTALL = `
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap 'rm -f $policy' EXIT
  trap 'exit 1' INT TERM HUP
  printf '#!/bin/sh\\nexit 101\\n' > $policy && chmod +x $policy
fi
apt="apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
$apt update && $apt install --no-install-recommends "$@"
`;

async function install({ packages }, holdsLock, say) {
  say(`Installing ${packages.join(' and ')} from the Debian packages (once) …`);
  const { code, output } = await run('sh', ['-c', INSTALL, 'install', ...packages], {
    stdio: ['ignore', 'pipe', 'pipe', holdsLock],
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
  });
  if (code !== 0)
    throw new Error(`apt-get failed with exit code ${code}:\n${output.split('\n').slice(-20).join('\n')}`);
}
