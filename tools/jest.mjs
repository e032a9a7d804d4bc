// Runs Jest in a checkout and counts what it did from its own JSON report.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { node24, projectEnv, root, run } from './checkout.mjs';

// Far above any honest run: a test run that hangs ends as a failure.
const LIMIT_MS = 45 * 60_000;

/**
 * `env` names the servers to use. Answers the counts of tests, of files that could not be run at all (broken),
 * and Jest's exit code; with `isShown` the run is shown while it goes on.
 */
export async function runJest({ args, env, cwd = root, isShown = false, limitMs = LIMIT_MS }) {
  const folder = mkdtempSync(join(tmpdir(), 'butler-jest-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  try {
    const report = join(folder, 'report.json');
    const program = join(root, 'node_modules', 'jest', 'bin', 'jest.js');
    const { code, output } = await run(node24, [program, '--json', `--outputFile=${report}`, ...args], {
      cwd,
      // With --json the report also goes to standard output; what is meant for people goes to standard error,
      // which becomes our standard output.
      stdio: isShown ? ['ignore', 'ignore', 1] : undefined,
      env: projectEnv({ ...env, NODE_OPTIONS: nodeOptions() }),
      limitMs,
    });
    return { ...readReport(report), code, output };
  } finally {
    process.off('exit', remove);
    remove();
  }
}

const nodeOptions = () =>
  [process.env.NODE_OPTIONS, '--experimental-vm-modules', '--disable-warning=ExperimentalWarning']
    .filter(Boolean)
    .join(' ');

function readReport(file) {
  try {
    const report = JSON.parse(readFileSync(file, 'utf8'));
    return {
      passed: report.numPassedTests,
      failed: report.numFailedTests,
      skipped: report.numPendingTests + report.numTodoTests,
      broken: report.numRuntimeErrorTestSuites,
    };
  } catch {
    // Jest writes none when it finds no test and when it is ended before its time.
    return { passed: 0, failed: 0, skipped: 0, broken: 0 };
  }
}
