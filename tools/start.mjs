// `npm start`: installs and builds what is missing, then runs the pod in the foreground on Node 24.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { ensureBuilt } from './build.mjs';
import { isProgram, main, node24, projectEnv, root } from './checkout.mjs';
import { ensureInstalled } from './install.mjs';

async function start(args) {
  await ensureInstalled();
  await ensureBuilt();
  const pod = spawn(node24, ['--enable-source-maps', 'dist/apps/server/src/main.js', ...args], {
    cwd: root,
    // The channel carries nothing: that it closes tells the pod that this process is gone, however it ended.
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: projectEnv(),
  });
  passSignalsOn(pod);
  const [code, signal] = await once(pod, 'exit');
  return code ?? 128 + constants.signals[signal];
}

/**
 * A Ctrl-C and a closed terminal reach the whole process group, the pod too: passing them on would make two of them.
 * Every other signal comes to this process alone, at times twice (npm passes on what it gets), and is passed on once.
 */
function passSignalsOn(pod) {
  const isFromTerminal = (signal) => process.stdin.isTTY && signal !== 'SIGTERM';
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    let isPassedOn = false;
    process.on(signal, () => {
      if (isPassedOn || isFromTerminal(signal)) return;
      isPassedOn = true;
      pod.kill(signal);
    });
  }
}

if (isProgram(import.meta.url)) await main(start);
