import { hrtime } from 'node:process';

/**
 * Monotonic time in ns, the same for all processes of a machine: what the drills put the work of several pods in order
 * by. The clock of the platform has another origin in each process, and nothing but records of the script agent is
 * measured with this one.
 */
export function monotonicNs(): number {
  return Number(hrtime.bigint());
}
