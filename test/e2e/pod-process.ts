// A pod as main.ts starts it, with step points that the test steers over IPC.
import 'reflect-metadata';
import { ActorSupervisor } from '#actor';
import { loadSettings } from '#platform';
import { type Pod, startPod } from '../../apps/server/src/pod.js';
import type { Order, PodState, Report } from './harness/pod-orders.js';
import { SteeredPoints } from './harness/steered-points.js';

const report = (report: Report): void => {
  if (process.connected) process.send?.(report);
};
const stepPoints = new SteeredPoints(report);
const settings = loadSettings(process.env);
let pod: Pod | null = null;

process.on('message', (order: Order) => {
  obey(order);
  report({ kind: 'obeyed', id: order.id });
});
// However the test ends, its pods end with it.
process.once('disconnect', () => process.exit(1));

pod = await startPod({ settings, stepPoints });
report({ kind: 'listening', url: pod.url });

function obey(order: Order): void {
  switch (order.act) {
    case 'release':
      return stepPoints.release(order.hold);
    case 'look':
      return report({ kind: 'state', id: order.id, state: lookAt(pod!) });
    case 'set':
      settings.actorIdleMs = order.actorIdleMs;
      return;
    case 'hold':
    case 'watch':
    case 'die':
      return stepPoints.obey(order);
  }
}

function lookAt({ app }: Pod): PodState {
  const resources: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  return { actors: app.get(ActorSupervisor, { strict: false }).counts(), resources };
}
