// Jest in ESM mode on the TypeScript sources: no build is needed to run one spec.
import { existsSync, readFileSync } from 'node:fs';

const root = new URL('./', import.meta.url);
const { imports } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));
const aliases = Object.entries(imports).map(([name, { types }]) => [`^${name}$`, types.replace('./', '<rootDir>/')]);

export default {
  roots: ['apps', 'libs', 'test'].filter((dir) => existsSync(new URL(dir, root))).map((dir) => `<rootDir>/${dir}`),
  testMatch: ['**/*.spec.ts'],
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': '@swc/jest' },
  moduleNameMapper: { ...Object.fromEntries(aliases), '^(\\.{1,2}/.*)\\.js$': '$1' },
  setupFiles: ['reflect-metadata'],
  // For machines that do other things too; what waits for something has a limit of its own.
  testTimeout: 90_000,
  maxWorkers: 2,
  // In ESM mode the heap grows with every file: a worker over this size is replaced.
  workerIdleMemoryLimit: '700MB',
};
