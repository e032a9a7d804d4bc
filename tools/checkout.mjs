// The checkout these tools belong to, and how they run programs in it.
import { spawn } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { constants } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const root = resolve(fileURLToPath(new URL('..', import.meta.url)));
export const binDir = join(root, 'node_modules', '.bin');

/** Node 24 from the dev dependencies: whatever runs project code runs on it, not on the installed Node. */
export const node24 = join(binDir, 'node');

/** The environment for project code: Node 24 first on the PATH, for a child and for its own children. */
export const projectEnv = (extra = {}) => ({
  ...process.env,
  PATH: `${binDir}${delimiter}${process.env.PATH ?? ''}`,
  ...extra,
});

/** Whether this module is the program that was started, not one that is imported. */
export const isProgram = (moduleUrl) =>
  process.argv[1] !== undefined && moduleUrl === pathToFileURL(realpathSync(process.argv[1])).href;

/** Runs a tool as a program: a failure is told in its own words, without a stack trace. */
export async function main(work) {
  try {
    process.exitCode = (await work(process.argv.slice(2))) ?? 0;
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}

const running = new Set();
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/** Runs a program to its end. Answers its exit code and, where stdio is piped, what it wrote. */
export function run(command, args, { stdio = ['ignore', 'pipe', 'pipe'], limitMs, ...options } = {}) {
  return new Promise((done, failed) => {
    const child = spawn(command, args, { cwd: root, stdio, ...options });
    let output = '';
    child.stdout?.setEncoding('utf8').on('data', (text) => (output += text));
    child.stderr?.setEncoding('utf8').on('data', (text) => (output += text));
    const limit = limitMs && setTimeout(() => child.kill('SIGKILL'), limitMs);
    if (running.size === 0) for (const signal of SIGNALS) process.on(signal, endTogether);
    running.add(child);
    const ended = () => {
      clearTimeout(limit);
      running.delete(child);
      if (running.size === 0) for (const signal of SIGNALS) process.off(signal, endTogether);
    };
    child.once('error', (error) => {
      ended();
      failed(error);
    });
    child.once('close', (code, signal) => {
      ended();
      done({ code: code ?? 1, signal, output });
    });
  });
}

function endTogether(signal) {
  for (const child of running) child.kill(signal);
  process.exit(128 + constants.signals[signal]);
}
