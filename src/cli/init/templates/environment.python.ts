import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

/** Your agent, in a process of its own. Nothing in it knows about training. */
const program = join(import.meta.dirname, 'agent.py');
const run = promisify(execFile);

const rule = { red: 'stop', amber: 'slow', green: 'go' };

export default defineEnvironment({
  name: 'crossing',
  scenario: z.object({ light: z.enum(['red', 'amber', 'green']) }),
  rollout: async ({ scenario, model, signal }) => {
    // The key tells martingale which rollout a call belongs to.
    const { baseUrl, apiKey } = await model.endpoint();
    const env = { ...process.env, OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: apiKey };
    const { stdout } = await run('python3', [program, scenario.light], { env, signal });
    return stdout.trim();
  },
  rewards: { success: ({ scenario, outcome }) => Number(outcome === rule[scenario.light]) },
});

export const scenarios = [{ light: 'red' }, { light: 'amber' }, { light: 'green' }] as const;
