import { join } from 'node:path';

/** Tasks that can be run, as fields of `task.toml`. Harbor has written each to a file of its name in `golden-tasks`. */
export const goldenTasks: Readonly<Record<string, object>> = {
  'all-defaults': {},
  'old-names': {
    version: '1.0',
    environment: { memory: '2G', storage: '10G', cpus: 1, allow_internet: false },
  },
  'nothing-asked-for': {
    multi_step_reward_strategy: 'final',
    steps: [],
    artifacts: [],
    agent: { network_mode: 'no-network' },
    verifier: { network_mode: 'no-network', environment_mode: 'shared', collect: [] },
    environment: { network_mode: 'no-network', os: 'Linux', gpus: 0, gpu_types: [], mcp_servers: [] },
  },
  'with-everything': {
    source: 'registry',
    task: { name: 'org/light', version: '1', authors: [{ name: 'A', email: 'a@b.c' }], keywords: ['light'] },
    metadata: { difficulty: 'easy', 'expert time': 1.5, tags: ['a', 'b'], deep: { er: [{ a: 1 }] } },
    agent: { timeout_sec: 900, user: 'agent' },
    verifier: { timeout_sec: 120, user: 0, env: { KEY: '\u0024{KEY_OF_A_TEST:-none}' } },
    environment: {
      docker_image: 'ubuntu:24.04',
      cpus: 2,
      memory_mb: 2048,
      storage_mb: 10_240,
      workdir: '/work',
      env: { QUESTION: '6*7', QUOTED: 'a "b" \\ \n c' },
    },
    solution: { env: { ANSWER: '42' } },
  },
};

export const goldenTomlOf = (name: string): string =>
  join(import.meta.dirname, 'golden-tasks', `${name}.toml`);
