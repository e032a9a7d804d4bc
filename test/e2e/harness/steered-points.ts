import { StepPoints } from '#platform';
import type { Facts, Order, Report } from './pod-orders.js';

interface Standing extends Order {
  left: number;
  held: (() => void)[];
}

/** Step points inside a pod process that do what its parent has ordered. */
export class SteeredPoints extends StepPoints {
  private standing: Standing[] = [];

  constructor(private readonly report: (report: Report) => void) {
    super();
  }

  obey(order: Order): void {
    if (order.act === 'release') this.release(order.point);
    else this.standing.push({ ...order, left: order.nth ?? 1, held: [] });
    this.report({ kind: 'obeyed', id: order.id });
  }

  override reach(point: string, facts: Facts = {}): Promise<void> | undefined {
    const order = this.standing.find((each) => each.point === point && matches(facts, each.where));
    if (!order || --order.left > 0) return undefined;
    if (order.act === 'die') process.kill(process.pid, 'SIGKILL');
    this.report({ kind: 'holding', id: order.id, facts });
    return new Promise((go) => order.held.push(go));
  }

  private release(point: string): void {
    const over = this.standing.filter((order) => order.point === point);
    this.standing = this.standing.filter((order) => order.point !== point);
    for (const order of over) for (const go of order.held) go();
  }
}

function matches(facts: Facts, where: Facts = {}): boolean {
  return Object.entries(where).every(([name, value]) => facts[name] === value);
}
