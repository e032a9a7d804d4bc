// `npm run prove [-- --sample N --seed N name …]`: shows that tests notice what they are there for. Each patch in
// test/planted breaks the product on purpose; in a copy of the checkout with that patch its named test must be red.
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { isProgram, main, node24, projectEnv, root, run } from './checkout.mjs';
import { ensureInstalled } from './install.mjs';
import { runJest } from './jest.mjs';
import { withServices } from './test-services.mjs';

const LIMIT_MS = 5 * 60_000;
const DAY_MS = 86_400_000;
const folder = join(root, 'test', 'planted');

/**
 * Proves the faults that are named, or a sample that moves on with the seed (by default the day), or all. Those left
 * out of a sample must still apply. `isControlled` first wants each test green without the fault. Answers the counts.
 */
export async function provePlanted({
  names = [],
  sample,
  seed = Math.floor(Date.now() / DAY_MS),
  isControlled,
  env,
  say,
}) {
  const all = readFaults(names);
  const chosen = sample ? choose(all, sample, seed) : all;
  say(`${chosen.length} of ${all.length} planted faults${sample ? ` (seed ${seed})` : ''}`);
  const count = { passed: 0, failed: 0 };
  if (all.length === 0) return count;
  await inCopy(async (copy) => {
    for (const fault of all) {
      const isChosen = chosen.includes(fault);
      const problem = await (isChosen ? prove(fault, { copy, isControlled, env }) : apply(fault, copy, '--check'));
      if (isChosen || problem)
        say(`  ${problem ? `FAILED ${fault.name}: ${problem}` : `red    ${fault.name}: ${fault.breaks}`}`);
      if (problem) count.failed++;
      else if (isChosen) count.passed++;
    }
  });
  return count;
}

function readFaults(names) {
  const files = existsSync(folder) ? readdirSync(folder).filter((file) => file.endsWith('.patch')) : [];
  const known = files.map((file) => file.slice(0, -'.patch'.length)).sort();
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`no such planted fault: ${unknown.join(', ')}`);
  return (names.length > 0 ? names : known).map(readFault);
}

function readFault(name) {
  const file = join(folder, `${name}.patch`);
  const text = readFileSync(file, 'utf8');
  const breaks = /^# breaks: (.+)$/m.exec(text)?.[1];
  const [, path, pattern] = /^# test: (\S+) -t "(.+)"$/m.exec(text) ?? [];
  if (!breaks || !path) throw new Error(`${file} lacks its lines "# breaks: …" and "# test: <path> -t "<name>""`);
  return { name, file, breaks, path, pattern };
}

function choose(all, sample, seed) {
  const from = (seed * sample) % (all.length || 1);
  return [...all.slice(from), ...all.slice(0, from)].slice(0, sample);
}

/** What is wrong with the proof of this fault; nothing when the test is green without it and red with it. */
async function prove(fault, { copy, isControlled, env }) {
  if (isControlled) {
    const control = await runNamedTest(fault, copy, env);
    if (control.problem) return control.problem;
    if (control.failed > 0) return `its test is red without the fault:\n${control.output}`;
  }
  const problem = await apply(fault, copy);
  if (problem) return problem;
  try {
    const result = await runNamedTest(fault, copy, env);
    return result.problem ?? (result.failed > 0 ? undefined : `"${fault.pattern}" stays green in ${fault.path}`);
  } finally {
    await apply(fault, copy, '--reverse');
  }
}

async function apply(fault, copy, ...flags) {
  const { code, output } = await run('git', ['apply', ...flags, fault.file], { cwd: copy });
  return code === 0 ? undefined : `the patch does not apply:\n${output}`;
}

async function runNamedTest({ path, pattern }, copy, env) {
  const build = await run(node24, ['tools/build.mjs'], { cwd: copy, env: projectEnv() });
  if (build.code !== 0) return { problem: `the build fails:\n${build.output}` };
  const args = ['--runTestsByPath', path, '--testNamePattern', pattern];
  const result = await runJest({ args, env, cwd: copy, limitMs: LIMIT_MS });
  if (result.broken > 0) return { problem: `${path} cannot be run:\n${result.output}` };
  if (result.passed + result.failed === 0) return { problem: `no test in ${path} is named "${pattern}"` };
  return result;
}

/** A copy of what belongs to the checkout, changes that are not committed included. */
async function inCopy(work) {
  const copy = mkdtempSync(join(tmpdir(), 'butler-prove-'));
  const remove = () => rmSync(copy, { recursive: true, force: true });
  process.once('exit', remove);
  try {
    const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root });
    for (const file of listed
      .toString()
      .split('\0')
      .filter((path) => path && existsSync(join(root, path)))) {
      mkdirSync(join(copy, dirname(file)), { recursive: true });
      copyFileSync(join(root, file), join(copy, file));
    }
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    return await work(copy);
  } finally {
    process.off('exit', remove);
    remove();
  }
}

if (isProgram(import.meta.url)) {
  await main(async (args) => {
    const options = { sample: { type: 'string' }, seed: { type: 'string' } };
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
    const numbers = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, Number(value)]));
    await ensureInstalled();
    const prove = (env) => provePlanted({ ...numbers, names: positionals, isControlled: true, env, say: console.log });
    const { passed, failed } = await withServices(console.log, prove);
    console.log(`\n${passed} passed, ${failed} failed`);
    return failed === 0 ? 0 : 1;
  });
}
