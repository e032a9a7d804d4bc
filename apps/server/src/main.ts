const OLDEST_NODE = 24;

/* eslint-disable no-console -- here and in start.ts the process speaks to whoever started it */

const { node } = process.versions;
if (Number(node.split('.')[0]) < OLDEST_NODE) {
  console.error(
    `Butler needs Node ${OLDEST_NODE} or newer, this is ${node}: start it with "npm start", which brings its own.`,
  );
  process.exit(1);
}
// Only now: what the pod is made of does not even load on an older Node.
const { start } = await import('./start.js');
await start();

export {};
