// `npm test`: everything a fresh machine needs, then the static checks, all tests and a sample of the planted faults.
// `--check` runs the static checks alone. Other arguments go to Jest, and then that selection of tests runs alone.
import { ensureBuilt } from './build.mjs';
import { isProgram, main } from './checkout.mjs';
import { runChecks } from './checks.mjs';
import { ensureInstalled } from './install.mjs';
import { runJest } from './jest.mjs';
import { provePlanted } from './prove.mjs';
import { withServices } from './test-services.mjs';

const PLANTED_SAMPLE = 2;

const say = (line) => console.log(line);

async function phase(name, work) {
  const since = Date.now();
  say(`\n── ${name}`);
  const result = await work();
  say(`── ${name}: ${((Date.now() - since) / 1000).toFixed(1)} s`);
  return result;
}

/** Jest's counts, where what could not run counts as failed, and in CI also what was left out. */
async function runTests(args, env) {
  const { passed, failed, skipped, broken, code } = await runJest({ args, env, isShown: true });
  const isByName = args.some((arg) => arg === '-t' || arg.startsWith('--testNamePattern'));
  const leftOut = process.env.CI === 'true' && !isByName ? skipped : 0;
  if (skipped > 0 && !isByName) say(`${skipped} skipped or todo${leftOut ? ': in CI these count as failed' : ''}`);
  const bad = failed + broken + leftOut;
  if (passed + bad === 0) say('No test ran.');
  return { passed, failed: bad === 0 && (code !== 0 || passed === 0) ? 1 : bad };
}

async function runPhases(args, counts) {
  const isCheck = args.length === 1 && args[0] === '--check';
  const isAll = args.length === 0;
  await phase('install', () => ensureInstalled(say));
  if (isAll || isCheck) counts.push(await phase('static checks', () => runChecks(say)));
  if (isCheck) return;
  await phase('build', () => ensureBuilt(say));
  await withServices(say, async (env) => {
    counts.push(await phase('tests', () => runTests(args, env)));
    const prove = () => provePlanted({ sample: PLANTED_SAMPLE, isControlled: false, env, say });
    if (isAll) counts.push(await phase('planted faults', prove));
  });
}

async function test(args) {
  const counts = [];
  try {
    await runPhases(args, counts);
  } catch (error) {
    say(`FAILED ${error.message}`);
    counts.push({ passed: 0, failed: 1 });
  }
  const sum = (key) => counts.reduce((total, count) => total + count[key], 0);
  say(`\n${sum('passed')} passed, ${sum('failed')} failed`);
  return sum('failed') === 0 ? 0 : 1;
}

if (isProgram(import.meta.url)) await main(test);
