import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { nginxConf, startNginx } from '../../tools/services.mjs';
import { Caller } from '../e2e/harness/caller.js';
import { onServers } from '../e2e/harness/stage.js';
import { Watcher } from '../e2e/harness/watcher.js';

/** A little longer than a pod is ever silent; nginx' own default is 60 s. */
const READ_TIMEOUT_S = 17;
/** What an event may take from the commit to the watcher; one that is kept back by a buffer takes for ever. */
const PROMPTLY_MS = 2_000;
const caller = new Caller();

/** nginx with nothing set for streams: it buffers, and packs whatever it may. */
function nginxConfig(port: number, pod: string): string {
  return nginxConf(`  gzip on;
  gzip_types *;
  gzip_proxied any;
  gzip_min_length 0;
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass ${pod};
      proxy_read_timeout ${READ_TIMEOUT_S}s;
    }
  }`);
}

test(
  'a stream behind a proxy that buffers, packs and cuts quiet connections tells each event at once, and outlives a silence',
  onServers(async (stage) => {
    const [pod] = await stage.start(['pod']);
    await caller.say(pod, 's1', 'say hello', 't0');
    await caller.ended(pod, 's1', 't0');
    const dir = mkdtempSync(join(tmpdir(), 'butler-proxy-'));
    mkdirSync(join(dir, 'tmp'));
    const nginx = await startNginx({ dir, config: ({ port }) => nginxConfig(port, pod.url) });
    try {
      const watcher = await Watcher.open(caller, nginx, 's1', { after: 0 });
      await watcher.sees('turn.completed', 't0', PROMPTLY_MS);
      // Nothing happens for longer than the proxy waits.
      await pause((READ_TIMEOUT_S + 1) * 1000);
      expect(watcher.closed).toBe(false);
      for (const turnId of ['t1', 't2', 't3']) {
        await caller.say(nginx, 's1', 'say well', turnId);
        await caller.ended(pod, 's1', turnId);
        await watcher.sees('turn.completed', turnId, PROMPTLY_MS);
      }
      expect(watcher.comments.length).toBeGreaterThan(0);
      watcher.close();
    } finally {
      await nginx.stop();
      rmSync(dir, { recursive: true, force: true });
    }
  }),
);
