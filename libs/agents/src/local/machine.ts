import { statfs } from 'node:fs/promises';
import { cpus, freemem, loadavg, totalmem, uptime } from 'node:os';

export interface DiskFigures {
  path: string;
  totalBytes: number;
  /** What an ordinary user may still write. */
  freeBytes: number;
}

/** What can be measured on the machine without asking anybody. */
export interface Machine {
  cpuCount(): number;
  /** Runnable tasks, averaged over 1, 5 and 15 minutes. */
  loads(): [number, number, number];
  uptimeS(): number;
  memory(): { totalBytes: number; availableBytes: number; processBytes: number };
  disk(path: string): Promise<DiskFigures>;
  workingFolder(): string;
}

export const thisMachine: Machine = {
  cpuCount: () => cpus().length,
  loads: () => loadavg() as [number, number, number],
  uptimeS: () => uptime(),
  memory: () => ({ totalBytes: totalmem(), availableBytes: freemem(), processBytes: process.memoryUsage().rss }),
  async disk(path) {
    const { blocks, bavail, bsize } = await statfs(path);
    return { path, totalBytes: blocks * bsize, freeBytes: bavail * bsize };
  },
  workingFolder: () => process.cwd(),
};
