// `npm run drill [-- --short name …]`: fault drills on real pods behind nginx, with servers of their own; all of them, or
// those that are named. The exit code is 1 when a promise was broken.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { ensureBuilt } from './build.mjs';
import { isProgram, main, node24, projectEnv, root } from './checkout.mjs';
import { ensureInstalled } from './install.mjs';
import { withServices } from './test-services.mjs';

const JEST = ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning', 'node_modules/jest/bin/jest.js'];
const LONG_FORMS = join(root, 'test', 'drills', 'long-forms.ts');

if (isProgram(import.meta.url)) {
  await main(async (args) => {
    const names = args.filter((arg) => arg !== '--short');
    await ensureInstalled();
    await ensureBuilt();
    return withServices(console.log, async (env) => {
      const form = args.includes('--short') ? 'short' : 'long';
      const own = { DRILL_FORM: form, ...(names.length > 0 && { DRILLS: names.join(',') }) };
      const options = { cwd: root, env: projectEnv({ ...env, ...own }), stdio: 'inherit' };
      return spawnSync(node24, [...JEST, '--runInBand', `--testMatch=${LONG_FORMS}`], options).status ?? 1;
    });
  });
}
