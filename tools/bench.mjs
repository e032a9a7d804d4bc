// `npm run bench`: Butler beside a bare script, on private servers with durable defaults, in one run.
import { spawnSync } from 'node:child_process';
import { ensureBuilt } from './build.mjs';
import { isProgram, main, node24, projectEnv, root } from './checkout.mjs';
import { ensureInstalled } from './install.mjs';
import { withServices } from './test-services.mjs';

if (isProgram(import.meta.url)) {
  await main(async () => {
    await ensureInstalled();
    await ensureBuilt();
    return withServices(console.log, async (env) => {
      const options = { cwd: root, env: { ...projectEnv(), ...env }, stdio: 'inherit' };
      return spawnSync(node24, ['dist/test/bench/bench.js'], options).status ?? 1;
    });
  });
}
