// The checkout these tools belong to, and how they run programs in it.
import { spawn } from 'node:child_process';
import { delimiter, join, resolve } from 'node:path';

export const root = resolve(import.meta.dirname ?? new URL('.', import.meta.url).pathname, '..');
export const binDir = join(root, 'node_modules', '.bin');

/** Node 24 from the dev dependencies: whatever runs project code runs on it, not on the installed Node. */
export const node24 = join(binDir, 'node');

/** The environment for project code: Node 24 first on the PATH, for this process's children and theirs. */
export const projectEnv = (extra = {}) => ({
  ...process.env,
  PATH: `${binDir}${delimiter}${process.env.PATH ?? ''}`,
  ...extra,
});

/** Runs a program to its end. Answers its exit code and, where stdio is piped, what it wrote (both streams, in order). */
export function run(command, args, { stdio = ['ignore', 'pipe', 'pipe'], ...options } = {}) {
  return new Promise((done, failed) => {
    const child = spawn(command, args, { cwd: root, stdio, ...options });
    let output = '';
    child.stdout?.setEncoding('utf8').on('data', (text) => (output += text));
    child.stderr?.setEncoding('utf8').on('data', (text) => (output += text));
    child.once('error', failed);
    child.once('close', (code, signal) => done({ code: code ?? 1, signal, output }));
  });
}
