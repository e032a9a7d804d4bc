// A lock between processes of one machine that the operating system releases when its holder dies.
// It is a listening socket: on Linux in the abstract namespace, which leaves no file behind.
import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 200;
const GIVE_UP_MS = 15 * 60_000;

/**
 * Runs `work` while holding the lock of this name; `onWait` is called once when another process holds it.
 * `work` gets an entry for a child's stdio list: with it the lock lasts as long as that child, even when this
 * process is killed before it.
 */
export async function withLock(name, onWait, work) {
  const address = addressOf(name);
  const since = Date.now();
  let handle = await tryListen(address);
  if (!handle) onWait();
  while (!handle) {
    if (Date.now() - since > GIVE_UP_MS) throw new Error(`the lock "${name}" is still taken after 15 minutes`);
    await sleep(POLL_MS);
    handle = await tryListen(address);
  }
  try {
    return await work(handle._handle?.fd ?? 'ignore');
  } finally {
    await new Promise((closed) => handle.close(closed));
  }
}

function addressOf(name) {
  const id = `butler-${process.getuid?.() ?? 0}-${createHash('sha256').update(name).digest('hex').slice(0, 24)}`;
  return process.platform === 'linux' ? `\0${id}` : join(tmpdir(), `${id}.sock`);
}

function tryListen(address) {
  return new Promise((done, failed) => {
    const server = createServer((socket) => socket.destroy());
    server.once('listening', () => done(server));
    server.once('error', async (error) => {
      if (error.code !== 'EADDRINUSE') return failed(error);
      if (!address.startsWith('\0') && !(await answers(address))) rmSync(address, { force: true });
      done(undefined);
    });
    server.listen(address);
  });
}

/** A socket file whose process has died refuses connections. */
function answers(address) {
  return new Promise((done) => {
    const socket = connect(address);
    socket.once('connect', () => {
      socket.destroy();
      done(true);
    });
    socket.once('error', () => done(false));
  });
}
