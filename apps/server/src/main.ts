const OLDEST_NODE = 24;

/* eslint-disable no-console -- here and in start.ts the process speaks to whoever started it */

const { node } = process.versions;
if (Number(node.split('.')[0]) < OLDEST_NODE) {
  console.error(
    `Butler needs Node ${OLDEST_NODE} or newer, this is ${node}: start it with "npm start", which brings its own.`,
  );
  process.exit(1);
}
endWithStarter();
// Only now: what the pod is made of does not even load on an older Node.
const { start } = await import('./start.js');
await start();

/** A starter that holds a channel to this process (`npm start`) and is gone, killed or not, ends it as SIGTERM would. */
function endWithStarter(): void {
  if (!process.channel) return;
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  process.channel.unref();
}

export {};
