import { type ChildProcess, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, createClient, runGroups, train } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { type OpenEnv, openEnv } from 'martingale/environments';
import { startService } from 'martingale/service';
import { scriptedModel } from 'martingale/testing';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { sharedFolder } from '../../support/files.ts';
import { freePort } from '../../support/free-port.ts';
import { untilReward } from '../../support/until-reward.ts';
import { pythonEnvironment } from '../python-environment.ts';

const folder = sharedFolder();
let python: string | undefined;

beforeAll(async () => {
  const list = await readFile(join(import.meta.dirname, 'requirements.txt'), 'utf8');
  const environment = await pythonEnvironment({
    what: 'environments of OpenEnv',
    requirements: list.trim().split('\n'),
    // Without the packages of its page and its command line.
    pipArguments: ['--no-deps'],
    minor: 11,
  });
  python = environment?.python;
}, 600_000);

const children: ChildProcess[] = [];
afterAll(() => children.forEach((child) => void child.kill('SIGKILL')));

/** The address of a server of worlds.py. */
async function served(
  world: 'lights' | 'tasks' | 'tools' | 'game',
  capacity = 64,
  onPort?: number,
): Promise<string> {
  const port = onPort ?? (await freePort());
  const program = join(import.meta.dirname, 'worlds.py');
  const child = spawn(python ?? '', [program, world, String(port), String(capacity)], { stdio: 'ignore' });
  children.push(child);
  const url = `http://127.0.0.1:${port}`;
  while (child.exitCode === null) {
    const health = await fetch(`${url}/health`).catch(() => null);
    if (health?.ok) return url;
    await sleep(100);
  }
  throw new Error(`worlds.py ended with ${child.exitCode}`);
}

const lights = (url: string) =>
  openEnv<{ text: string }, { word: string }>(url, {
    prompt: ({ observation }) => observation.text,
    action: ({ text }) => ({ word: text }),
    limits: { turns: 4 },
    settings: oneOf(['stop', 'slow', 'go']),
  });

const oneOf = (choice: string[]) => ({
  providerOptions: { martingale: { structured_outputs: { choice } } },
});

async function withService<Result>(use: (client: Client) => Promise<Result>): Promise<Result> {
  const engine = await createEmbeddedEngine();
  onTestFinished(() => engine.close());
  const service = await startService({ engine, dataFolder: join(folder, `data-${children.length}`) });
  onTestFinished(() => service.close());
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  onTestFinished(() => client.close());
  return use(client);
}

/** Mean reward of the first step, and of the last, which ends the run when it is above 0.9. */
const learned = (env: OpenEnv, scenarios: { seed: number }[], steps: number) =>
  withService(async (client) => {
    const { reports } = await train({
      environment: env.environment,
      scenarios,
      client,
      model: { project: 'worlds', name: env.environment.name, baseModel: 'martingale-tiny' },
      steps,
      groupsPerStep: 3,
      rolloutsPerGroup: 16,
      config: { learning_rate: 1e-3, entropy_coefficient: 0.01 },
      seed: 1,
      runDirectory: join(folder, `run-${children.length}`),
      progress: false,
      ...untilReward(0.9),
    });
    expect(reports.every(({ completed }) => completed === 48)).toBe(true);
    return [reports[0]?.reward ?? 1, reports.at(-1)?.reward ?? 0] as const;
  });

describe('the package openenv', { tags: ['long'] }, () => {
  it('serves an environment that the tiny model learns, from chance to above 0.9', async ({ skip }) => {
    if (!python) return skip('it cannot be installed');
    const env = await lights(await served('lights'));
    onTestFinished(() => env.close());
    const [first, last] = await learned(env, await env.scenarios(3), 25);
    expect(first).toBeLessThan(0.6);
    expect(last).toBeGreaterThan(0.9);
  });

  it('serves tools, which the tiny model learns to call without any glue', async ({ skip }) => {
    if (!python) return skip('it cannot be installed');
    const env = await openEnv(await served('tools'), {
      settings: { toolChoice: 'required' },
      limits: { turns: 1 },
    });
    onTestFinished(() => env.close());
    const [first, last] = await learned(env, await env.scenarios(3), 25);
    expect(first).toBeLessThan(0.6);
    expect(last).toBeGreaterThan(0.9);
  });

  it('serves a game of TextArena that the tiny model learns', async ({ skip }) => {
    if (!python) return skip('it cannot be installed');
    const env = await openEnv<{ text: string }, { word: string }>(await served('game'), {
      // The rules are long; the model plays by what the game said last.
      prompt: ({ observation, steps }) => (steps === 0 ? 'guess' : observation.text),
      action: ({ text }) => ({ word: text }),
      limits: { turns: 4 },
      settings: oneOf(Array.from({ length: 20 }, (_, at) => `[${at + 1}]`)),
    });
    onTestFinished(() => env.close());
    const [first, last] = await learned(env, [{ seed: 3 }], 25);
    expect(first).toBeLessThan(0.5);
    expect(last).toBeGreaterThan(0.9);
  });

  it('serves tasks by their splits, and each rollout gets the one of its scenario', async ({ skip }) => {
    if (!python) return skip('it cannot be installed');
    const env = await lights(await served('tasks'));
    onTestFinished(() => env.close());
    expect(env.environment.name).toBe('city lights');
    expect(env.splits).toEqual(['train', 'by night']);
    const scenarios = [...(await env.scenarios('train')), ...(await env.scenarios('by night'))];
    expect(scenarios.map(({ split, index }) => `${split} ${index}`)).toEqual([
      ...['train 0', 'train 1', 'train 2', 'by night 0', 'by night 1'],
    ]);
    const { groups } = await runGroups({
      environment: env.environment,
      scenarios,
      rolloutsPerGroup: 1,
      model: scriptedModel(() => 'slow'),
    });
    const rollouts = groups.flatMap((group) => group.rollouts);
    expect(rollouts.map(({ trajectory }) => trajectory.calls[0]?.messages.at(-1)?.content)).toEqual([
      'train, 0: the light is red',
      'train, 1: the light is amber',
      'train, 2: the light is green',
      'by night, 0: the light is amber',
      'by night, 1: the light is green',
    ]);
    expect(rollouts.map((rollout) => rollout.status === 'completed' && rollout.reward)).toEqual([
      ...[0, 1, 0, 1, 0],
    ]);
    await expect(openEnv(await served('tasks'), { environment: 'chess' })).rejects.toThrow(
      'no environment "chess". It has city lights',
    );
  });

  it('has no splits where its environment does not implement them', async ({ skip }) => {
    if (!python) return skip('it cannot be installed');
    const env = await lights(await served('lights'));
    onTestFinished(() => env.close());
    expect([env.environment.name, env.splits]).toEqual(['Lights', []]);
    await expect(env.scenarios('train')).rejects.toThrow(/no split "train"\. It has none: pass a number/);
  });

  it('is waited for while it starts', async ({ skip }) => {
    if (!python) return skip('it cannot be installed');
    const port = await freePort();
    const opening = lights(`http://127.0.0.1:${port}`);
    await served('lights', 1, port);
    const env = await opening;
    onTestFinished(() => env.close());
    expect(env.environment.name).toBe('Lights');
  });

  it('paces rollouts where it has room for one, and fails those that its environment fails', async ({
    skip,
  }) => {
    if (!python) return skip('it cannot be installed');
    const env = await lights(await served('lights', 1));
    onTestFinished(() => env.close());
    const play = async (words: string, seed: number, rolloutsPerGroup: number) => {
      const { groups } = await runGroups({
        environment: env.environment,
        scenarios: [{ seed }],
        rolloutsPerGroup,
        model: scriptedModel(() => words),
      });
      return groups[0]?.rollouts.map((rollout) =>
        rollout.status === 'failed' ? rollout.failure.message : rollout.status,
      );
    };
    expect(await play('go', 2, 8)).toEqual(Array(8).fill('completed'));
    expect(await play('crash', 2, 1)).toEqual([expect.stringContaining('the car broke down')]);
    expect(await play('go', 99, 1)).toEqual([expect.stringContaining('there is no such street')]);
  });
});
