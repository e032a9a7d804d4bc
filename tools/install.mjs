// Brings node_modules in line with package-lock.json, once, however many tools start at the same time.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { node24, root, run } from './checkout.mjs';
import { withLock } from './lock.mjs';

const modules = join(root, 'node_modules');
const lockFile = join(root, 'package-lock.json');

// `npm ci` empties node_modules first, so the stamp is there only after an install that reached its end.
const stamp = join(modules, '.butler-install');

function wanted() {
  const hash = createHash('sha256').update(readFileSync(lockFile)).digest('hex');
  return `${process.platform}-${process.arch} ${hash}\n`;
}

function isInstalled() {
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted()) return true;
  if (!existsSync(node24) || !isUpToDate()) return false;
  writeFileSync(stamp, wanted());
  return true;
}

/** After an `npm install <package>` by hand: npm lists in a lock file of its own what it has put into node_modules. */
function isUpToDate() {
  const own = join(modules, '.package-lock.json');
  if (!existsSync(own)) return false;
  const locked = JSON.parse(readFileSync(lockFile, 'utf8')).packages;
  const present = JSON.parse(readFileSync(own, 'utf8')).packages;
  const isSame = (path) => locked[path]?.integrity === present[path]?.integrity;
  // Optional packages are those for other platforms.
  const isIn = (path) => path === '' || (path in present ? isSame(path) : locked[path].optional);
  return Object.keys(locked).every(isIn) && Object.keys(present).every((path) => path in locked);
}

export async function ensureInstalled(say = console.error) {
  if (isInstalled()) return;
  await withLock(
    `install ${root}`,
    () => say('Another start of this checkout is installing; waiting for it …'),
    async (holdsLock) => {
      if (isInstalled()) return;
      await install(holdsLock, say);
    },
  );
}

async function install(holdsLock, say) {
  const since = Date.now();
  const seconds = () => Math.round((Date.now() - since) / 1000);
  say('Installing the dependencies (once, about half a minute) …');
  const ticker = setInterval(() => say(`  … still installing, ${seconds()} s`), 10_000);
  // NODE_ENV=production must not leave out the dev dependencies: Node 24 and the compiler are among them.
  const args = ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'];
  const { code, output } = await run('npm', args, { stdio: ['ignore', 'pipe', 'pipe', holdsLock] }).finally(() =>
    clearInterval(ticker),
  );
  if (code !== 0) throw new Error(`npm ci failed with exit code ${code}:\n${output}`);
  if (!existsSync(node24)) {
    throw new Error('npm ci did not install Node 24: does an npm setting (ignore-scripts) forbid install scripts?');
  }
  writeFileSync(stamp, wanted());
  say(`Installed in ${seconds()} s.`);
}
