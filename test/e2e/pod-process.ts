// A pod as main.ts starts it, with step points that the test steers over IPC.
import 'reflect-metadata';
import { loadSettings } from '#platform';
import { startPod } from '../../apps/server/src/pod.js';
import type { Order, Report } from './harness/pod-orders.js';
import { SteeredPoints } from './harness/steered-points.js';

const report = (report: Report): void => {
  if (process.connected) process.send?.(report);
};
const stepPoints = new SteeredPoints(report);
process.on('message', (order: Order) => stepPoints.obey(order));
// However the test ends, its pods end with it.
process.once('disconnect', () => process.exit(1));

const { url } = await startPod({ settings: loadSettings(process.env), stepPoints });
report({ kind: 'listening', url });
