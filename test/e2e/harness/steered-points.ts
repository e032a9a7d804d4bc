import { isDeepStrictEqual } from 'node:util';
import { StepPoints } from '#platform';
import type { Facts, PointOrder, Report } from './pod-orders.js';

interface Standing extends PointOrder {
  left: number;
  held: (() => void)[];
}

/** Step points inside a pod process that do what its parent has ordered. */
export class SteeredPoints extends StepPoints {
  private standing: Standing[] = [];

  constructor(private readonly report: (report: Report) => void) {
    super();
  }

  obey(order: PointOrder): void {
    this.standing.push({ ...order, left: order.nth ?? 1, held: [] });
  }

  release(hold: number): void {
    const over = this.standing.find((order) => order.id === hold);
    this.standing = this.standing.filter((order) => order !== over);
    for (const go of over?.held ?? []) go();
  }

  override reach(point: string, facts: Facts = {}): Promise<void> | undefined {
    const due = this.standing.filter((each) => each.point === point && matches(facts, each.where));
    for (const order of due) if (order.act === 'watch') this.report({ kind: 'reached', id: order.id, facts });
    const order = due.find(({ act }) => act !== 'watch');
    if (!order || --order.left > 0) return undefined;
    if (order.act === 'die') process.kill(process.pid, 'SIGKILL');
    this.report({ kind: 'reached', id: order.id, facts });
    return new Promise((go) => order.held.push(go));
  }
}

function matches(facts: Facts, where: Facts = {}): boolean {
  return Object.entries(where).every(([name, value]) => isDeepStrictEqual(facts[name], value));
}
