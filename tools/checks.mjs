// The static checks: format, lint, types, import rules, dead code.
import { join } from 'node:path';
import { binDir, projectEnv, run } from './checkout.mjs';

// A check uses one core for most of its time.
const AT_ONCE = 2;

const CHECKS = [
  { name: 'lint', command: ['eslint', '.', '--max-warnings=0'] },
  { name: 'types', command: ['tsc', '--noEmit', '--project', 'tsconfig.json'] },
  { name: 'types in browsers', command: ['tsc', '--noEmit', '--project', 'libs/client/tsconfig.browser.json'] },
  { name: 'format', command: ['prettier', '--check', '--log-level=warn', '.'] },
  { name: 'import rules', command: ['depcruise', 'apps', 'libs', 'test'] },
  { name: 'dead code', command: ['knip', '--no-progress'] },
];

/** Runs all of them, whichever fail. Answers how many passed and failed. */
export async function runChecks(say) {
  const waiting = [...CHECKS];
  const count = { passed: 0, failed: 0 };
  const work = async () => {
    for (let check = waiting.shift(); check; check = waiting.shift()) {
      const since = Date.now();
      const [program, ...args] = check.command;
      const { code, output } = await run(join(binDir, program), args, { env: projectEnv() });
      const seconds = ((Date.now() - since) / 1000).toFixed(1);
      say(`  ${code === 0 ? 'ok    ' : 'FAILED'} ${check.name} (${seconds} s)`);
      if (code !== 0) say(output.trimEnd());
      count[code === 0 ? 'passed' : 'failed']++;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return count;
}
