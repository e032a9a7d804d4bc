// `npm run bench`: Butler beside a bare script, on private servers with durable defaults, in one run. `-- refill` measures
// how a Redis that has lost everything is filled again instead.
import { spawnSync } from 'node:child_process';
import { ensureBuilt } from './build.mjs';
import { isProgram, main, node24, projectEnv, root } from './checkout.mjs';
import { ensureInstalled } from './install.mjs';
import { withServices } from './test-services.mjs';

const PROGRAMS = new Map([
  [undefined, 'bench.js'],
  ['refill', 'refill.js'],
]);

if (isProgram(import.meta.url)) {
  await main(async () => {
    const program = PROGRAMS.get(process.argv[2]);
    if (!program) throw new Error(`no such bench: ${process.argv[2]}. There is refill, and without a name the whole.`);
    await ensureInstalled();
    await ensureBuilt();
    return withServices(console.log, async (env) => {
      const options = { cwd: root, env: { ...projectEnv(), ...env }, stdio: 'inherit' };
      return spawnSync(node24, [`dist/test/bench/${program}`], options).status ?? 1;
    });
  });
}
