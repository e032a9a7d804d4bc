// Private Redis, MariaDB and nginx servers on free loopback ports: for tests; and Redis and MariaDB in the foreground as
// `npm run services`.
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isProgram, main, run } from './checkout.mjs';
import { MARIADB, NGINX, providePrograms, REDIS } from './service-programs.mjs';

// Below the range from which the system takes ports for outgoing connections.
const PORTS = { from: 20_000, to: 32_000 };
const START_LIMIT_MS = 60_000;
const START_ATTEMPTS = 5;
const STOP_LIMIT_MS = 15_000;

/**
 * `dir` and `port` let a test start a server again with the data or at the address of one that was killed;
 * a folder that is given is kept. `args` are added to the server's own.
 */
export async function startRedis({ dir, port, args = [], say } = {}) {
  const programs = await providePrograms(REDIS, say);
  return start({
    name: 'redis',
    dir,
    port,
    command: (at) => [
      programs['redis-server'],
      ...['--port', at.port, '--bind', '127.0.0.1', '--dir', at.dir],
      ...['--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction', ...args],
    ],
    // Redis answers a PING with an error while it still loads its data.
    isReady: async (at) => (await firstReply(at, 'PING\r\n')).startsWith('+PONG'),
    url: (at) => `redis://127.0.0.1:${at}`,
  });
}

export async function startMariaDb({ dir, port, args = [], say } = {}) {
  const programs = await providePrograms(MARIADB, say);
  const asRoot = process.getuid?.() === 0 ? ['--user=root'] : [];
  return start({
    name: 'mariadb',
    dir,
    port,
    prepare: async (at) => {
      mkdirSync(join(at, 'tmp'), { recursive: true });
      writeFileSync(join(at, 'init.sql'), 'CREATE DATABASE IF NOT EXISTS butler;\n');
      const options = [`--datadir=${join(at, 'data')}`, '--auth-root-authentication-method=normal', '--skip-test-db'];
      const { code, output } = await run(programs['mariadb-install-db'], ['--no-defaults', ...asRoot, ...options]);
      if (code !== 0) throw new Error(`mariadb-install-db failed with exit code ${code}:\n${output}`);
    },
    command: (at) => [
      programs.mariadbd,
      '--no-defaults',
      ...asRoot,
      ...[`--datadir=${join(at.dir, 'data')}`, `--tmpdir=${join(at.dir, 'tmp')}`, `--socket=${join(at.dir, 's.sock')}`],
      ...[`--pid-file=${join(at.dir, 'pid')}`, `--init-file=${join(at.dir, 'init.sql')}`, '--bind-address=127.0.0.1'],
      ...[`--port=${at.port}`, '--max-connections=500', '--character-set-server=utf8mb4', '--skip-name-resolve'],
      // Durable as in production, so that a test of lost commits means something. SQL reaches no file elsewhere.
      ...['--innodb-flush-log-at-trx-commit=1', `--secure-file-priv=${join(at.dir, 'tmp')}`, ...args],
    ],
    // The greeting comes after the init file has run.
    isReady: async (at) => (await firstReply(at)).length > 0,
    url: (at) => `mysql://root@127.0.0.1:${at}/butler`,
  });
}

/** A whole nginx.conf around what its `http` block holds, for an nginx that keeps to its own folder and the `tmp` there. */
export function nginxConf(http) {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((of) => `  ${of}_temp_path tmp/${of};`);
  return `daemon off;
${process.getuid?.() === 0 ? 'user root;' : ''}
pid nginx.pid;
worker_processes 1;
events { worker_connections 4096; }
http {
  access_log off;
${temporary.join('\n')}
${http}
}
`;
}

/**
 * `config` answers what stands in `<dir>/nginx.conf` for this `{ dir, port }`. To change it later, write that file and send
 * SIGHUP.
 */
export async function startNginx({ dir, port, config, say }) {
  const programs = await providePrograms(NGINX, say);
  return start({
    name: 'nginx',
    dir,
    port,
    command: (at) => {
      writeFileSync(join(at.dir, 'nginx.conf'), config(at));
      return [programs.nginx, '-p', at.dir, '-c', 'nginx.conf', '-e', 'stderr'];
    },
    isReady: async (at) => (await firstReply(at, 'GET / HTTP/1.0\r\n\r\n')).startsWith('HTTP/'),
    url: (at) => `http://127.0.0.1:${at}`,
  });
}

async function start({ name, dir, port, prepare, command, isReady, url }) {
  const home = dir ?? mkdtempSync(join(tmpdir(), `butler-${name}-`));
  const guard = watchOver(dir ? '' : home);
  const log = join(home, 'log');
  const leave = () => {
    guard.kill('SIGKILL');
    if (!dir) rmSync(home, { recursive: true, force: true });
  };
  try {
    await prepare?.(home);
    for (let attempt = 1; ; attempt++) {
      const at = { dir: home, port: port ?? (await freePort()) };
      const server = launch(command(at), log, guard);
      if (await becomesReady(server, () => isReady(at.port))) {
        return { url: url(at.port), port: at.port, pid: server.pid, stop: () => stop(server).then(leave) };
      }
      await stop(server);
      // Somebody else may have taken the port between the look and the start.
      if (port || attempt === START_ATTEMPTS) throw new Error(`${name} does not start:\n${readFileSync(log, 'utf8')}`);
    }
  } catch (error) {
    leave();
    throw error;
  }
}

/** In a process group of its own: a Ctrl-C is for whoever uses the server, who then stops it in order. */
function launch([program, ...args], log, guard) {
  const out = openSync(log, 'a');
  const server = spawn(program, args.map(String), { detached: true, stdio: ['ignore', out, out] });
  closeSync(out);
  guard.stdin.write(`${server.pid}\n`);
  server.once('exit', () => guard.stdin.write('\n'));
  server.on('error', () => {});
  server.unref();
  return server;
}

/**
 * A shell at the other end of a pipe, told the server's process id: however this process ends, by SIGKILL too,
 * the pipe closes and the shell ends the server, with all processes of its group, and removes the folder.
 */
function watchOver(removed) {
  const script = `
    while read -r line; do pid=$line; done
    [ -z "$pid" ] || kill -9 -"$pid"
    [ -z "$1" ] || rm -rf "$1" || { sleep 3; rm -rf "$1"; }`;
  const guard = spawn('sh', ['-c', script, 'guard', removed], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
  guard.stdin.on('error', () => {});
  guard.stdin.unref();
  guard.unref();
  return guard;
}

async function becomesReady(server, isReady) {
  const since = Date.now();
  while (server.pid && server.exitCode === null && server.signalCode === null && Date.now() - since < START_LIMIT_MS) {
    if (await isReady()) return true;
    await sleep(20);
  }
  return false;
}

async function stop(server) {
  if (!server.pid || server.exitCode !== null || server.signalCode !== null) return;
  server.ref();
  const exited = once(server, 'exit');
  // A server that a test has paused takes no SIGTERM.
  server.kill('SIGCONT');
  server.kill('SIGTERM');
  const limit = setTimeout(() => server.kill('SIGKILL'), STOP_LIMIT_MS);
  await exited;
  clearTimeout(limit);
}

async function freePort() {
  for (;;) {
    const port = PORTS.from + Math.floor(Math.random() * (PORTS.to - PORTS.from));
    const probe = createServer();
    const isFree = await new Promise((done) => {
      probe.once('listening', () => done(true));
      probe.once('error', () => done(false));
      probe.listen(port, '127.0.0.1');
    });
    await new Promise((closed) => probe.close(closed));
    if (isFree) return port;
  }
}

/** The first bytes a server sends, empty when it does not answer. */
function firstReply(port, request) {
  return new Promise((done) => {
    const socket = connect(port, '127.0.0.1');
    socket.setTimeout(1_000, () => socket.destroy());
    if (request) socket.write(request);
    socket.once('data', (data) => {
      done(data.toString('latin1'));
      socket.destroy();
    });
    socket.once('error', () => {});
    socket.once('close', () => done(''));
  });
}

if (isProgram(import.meta.url)) {
  await main(async () => {
    const services = [await startRedis(), await startMariaDb()];
    console.log(`export REDIS_URL=${services[0].url}\nexport DATABASE_URL=${services[1].url}`);
    console.error('Both run until Ctrl-C.');
    const awake = setInterval(() => {}, 60_000);
    await Promise.race(['SIGINT', 'SIGTERM', 'SIGHUP'].map((signal) => once(process, signal)));
    clearInterval(awake);
    await Promise.all(services.map((service) => service.stop()));
  });
}
