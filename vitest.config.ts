import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const source = (path: string) => fileURLToPath(new URL(`./src/${path}`, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      { find: /^martingale$/, replacement: source('index.ts') },
      { find: /^martingale\/embedded$/, replacement: source('engines/embedded/index.ts') },
      { find: /^martingale\/(cli|client|service)$/, replacement: source('$1/index.ts') },
      { find: /^martingale\/(loop|records|testing)$/, replacement: source('$1.ts') },
    ],
  },
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
