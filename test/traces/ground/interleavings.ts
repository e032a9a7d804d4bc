/** All orders of the steps of these chains in which every chain keeps its own order. A step of two chains is one step. */
export function interleavings(...chains: readonly (readonly string[])[]): string[][] {
  const steps = [...new Set(chains.flat())];
  const orders: string[][] = [];
  const extend = (order: string[]): void => {
    if (order.length === steps.length) orders.push(order);
    for (const step of steps) {
      if (!order.includes(step) && chains.every((chain) => mayFollow(chain, step, order))) extend([...order, step]);
    }
  };
  extend([]);
  return orders;
}

function mayFollow(chain: readonly string[], step: string, order: readonly string[]): boolean {
  const at = chain.indexOf(step);
  return at < 0 || chain.slice(0, at).every((earlier) => order.includes(earlier));
}
