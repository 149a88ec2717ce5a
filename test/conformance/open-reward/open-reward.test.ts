import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient, runGroups, train } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { openReward } from 'martingale/environments';
import { startService } from 'martingale/service';
import { type ScriptedReply, scriptedModel } from 'martingale/testing';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { sharedFolder } from '../../support/files.ts';
import { freePort } from '../../support/free-port.ts';
import { pythonEnvironment } from '../python-environment.ts';

const folder = sharedFolder();
let python: string | undefined;

beforeAll(async () => {
  const environment = await pythonEnvironment({
    what: 'environments of the Open Reward Standard',
    requirements: ['openreward==0.1.167'],
    minor: 11,
  });
  python = environment?.python;
}, 600_000);

const children: ChildProcess[] = [];
afterAll(() => children.forEach((child) => void child.kill('SIGKILL')));

/** The address of a server of lights.py. */
async function served(): Promise<string> {
  const port = await freePort();
  const child = spawn(python ?? '', [join(import.meta.dirname, 'lights.py'), String(port)], {
    stdio: 'ignore',
  });
  children.push(child);
  const url = `http://127.0.0.1:${port}`;
  while (child.exitCode === null) {
    const health = await fetch(`${url}/health`).catch(() => null);
    if (health?.ok) return url;
    await sleep(100);
  }
  throw new Error(`lights.py ended with ${child.exitCode}`);
}

describe('the package openreward', { tags: ['long'] }, () => {
  it('serves an environment that the tiny model learns, from chance to above 0.9', async ({ skip }) => {
    if (!python) return skip('it cannot be installed');
    const lights = await openReward(await served(), {
      settings: { toolChoice: 'required' },
      limits: { turns: 1 },
    });
    onTestFinished(() => lights.close());
    expect([lights.environment.name, lights.splits]).toEqual(['lights', ['train', 'test']]);
    const engine = await createEmbeddedEngine();
    onTestFinished(() => engine.close());
    const service = await startService({ engine, dataFolder: join(folder, 'data') });
    onTestFinished(() => service.close());
    const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
    onTestFinished(() => client.close());
    const scenarios = await lights.scenarios('train');
    const { validation } = await train({
      environment: lights.environment,
      scenarios,
      client,
      model: { project: 'lights', name: 'first', baseModel: 'martingale-tiny' },
      steps: 20,
      groupsPerStep: 3,
      rolloutsPerGroup: 16,
      config: { learning_rate: 1e-3, entropy_coefficient: 0.01 },
      validation: { scenarios: await lights.scenarios('test'), rolloutsPerScenario: 8, temperature: 'agent' },
      seed: 1,
      runDirectory: join(folder, 'run'),
      progress: false,
    });
    expect(validation.before?.reward?.mean).toBeLessThan(0.7);
    expect(validation.after?.reward?.mean).toBeGreaterThan(0.9);
  });

  it('keeps a slow call, sends images, ends by text, and fails what its environment fails', async ({
    skip,
  }) => {
    if (!python) return skip('it cannot be installed');
    const echo = await openReward(await served(), { environment: 'echo' });
    onTestFinished(() => echo.close());
    const [scenario = { split: 'train', index: 0 }] = await echo.scenarios('train');
    const rollout = async (...replies: ScriptedReply[]) => {
      const model = scriptedModel(
        ({ messages }) => replies[messages.filter(({ role }) => role === 'assistant').length] ?? 'end',
      );
      const options = { environment: echo.environment, scenarios: [scenario], rolloutsPerGroup: 1, model };
      const { groups } = await runGroups(options);
      const [ended] = groups[0]?.rollouts ?? [];
      if (ended?.status === 'completed') return ended.trajectory.reward;
      return ended?.status === 'failed' ? ended.failure.message : 'cancelled';
    };
    const call = (name: string, values: object = {}): ScriptedReply => ({
      toolCalls: [{ name, arguments: values }],
    });
    expect(await rollout(call('wait', { text: '12' }), 'well done')).toBeCloseTo(0.5 + 0.9);
    expect(await rollout(call('answer', { word: 'right' }), 'oh')).toBeCloseTo(0.2);
    expect(await rollout(call('picture'), 'x')).toMatch(/image|file/i);
    expect(await rollout(call('fail'))).toContain('the shelf is empty');
    expect(await rollout(call('die'))).toMatch(/did not answer|cannot be reached/);
  });
});
