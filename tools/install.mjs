// Brings node_modules in line with package-lock.json, once, however many tools start at the same time.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { node24, root, run } from './checkout.mjs';
import { withLock } from './lock.mjs';

// `npm ci` empties node_modules first, so the stamp is there only after an install that reached its end.
const stamp = join(root, 'node_modules', '.butler-install');

function wanted() {
  const lockFile = createHash('sha256').update(readFileSync(join(root, 'package-lock.json')));
  return `${process.platform}-${process.arch} ${lockFile.digest('hex')}\n`;
}

const isInstalled = () => existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted();

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
