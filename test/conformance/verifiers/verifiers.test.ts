import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { createClient, type Environment, runGroups, train } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { startService } from 'martingale/service';
import { scriptedModel } from 'martingale/testing';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { snippetsOf } from '../../readme/documents.ts';
import { freePort } from '../../support/free-port.ts';
import { root } from '../../support/programs.ts';
import { untilReward } from '../../support/until-reward.ts';
import { pythonEnvironment } from '../python-environment.ts';

type VerifiersTasks = (
  url: string,
  sampling?: object,
) => Promise<{ environment: Environment; scenarios: { task: number }[] }>;

let folder: string;
let server: ChildProcess | undefined;
let url = '';
let verifiersTasks: VerifiersTasks;

beforeAll(async () => {
  const list = await readFile(join(root, 'test/bench/peers/verifiers-requirements.txt'), 'utf8');
  const environment = await pythonEnvironment({
    what: 'environments of verifiers',
    requirements: list.split('\n').filter((line) => /^\w/.test(line)),
    pipArguments: ['--no-deps'],
    minor: 11,
    installTimeoutMs: 900_000,
  });
  if (!environment) return;
  // In the repository, so that packages resolve as they do for a reader.
  await mkdir(join(root, '.martingale'), { recursive: true });
  folder = await mkdtemp(join(root, '.martingale/verifiers-'));
  for (const { note, code } of await snippetsOf('docs/environments.md'))
    if (note.startsWith('verifiers')) await writeFile(join(folder, note), code);
  ({ verifiersTasks } = await import(pathToFileURL(join(folder, 'verifiers-tasks.ts')).href));
  const port = await freePort();
  server = spawn(environment.python, [join(folder, 'verifiers_server.py'), 'lights', String(port)], {
    env: { ...process.env, PYTHONPATH: import.meta.dirname, HF_HUB_OFFLINE: '1' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  url = `http://127.0.0.1:${port}`;
  while (!(await fetch(`${url}/tasks`).catch(() => null))?.ok) {
    if (server.exitCode !== null) throw new Error(`the server ended with ${server.exitCode}`);
    await sleep(100);
  }
}, 1_200_000);

afterAll(async () => {
  server?.kill('SIGKILL');
  if (folder) await rm(folder, { recursive: true });
});

describe('an environment of verifiers, behind the server of the documents', { tags: ['long'] }, () => {
  it('plays with its tools, its rewards and its metrics, and fails where the model fails', async ({
    skip,
  }) => {
    if (!server) return skip('it cannot be installed');
    const { environment, scenarios } = await verifiersTasks(url, { max_tokens: 20 });
    expect(scenarios).toEqual([{ task: 0 }, { task: 1 }, { task: 2 }]);
    const { groups } = await runGroups({
      environment,
      scenarios,
      rolloutsPerGroup: 1,
      model: scriptedModel(({ messages, tools, max_tokens, max_completion_tokens }) => {
        expect([tools?.length, max_tokens ?? max_completion_tokens]).toEqual([1, 20]);
        if (messages[0]?.content === 'the light is amber') throw new Error('the model is ill');
        const waits = { toolCalls: [{ name: 'wait', arguments: { seconds: 3 } }] };
        return messages.at(-1)?.role === 'tool' ? 'stop' : waits;
      }),
    });
    const [red, amber, green] = groups.map(({ rollouts: [rollout] }) => rollout);
    expect(red).toMatchObject({ status: 'completed', reward: 1, trajectory: { metrics: { wait_calls: 1 } } });
    expect(red?.trajectory.calls[1]?.messages.at(-1)).toMatchObject({
      role: 'tool',
      content: '3 s later nothing has changed',
    });
    expect(green).toMatchObject({ status: 'completed', reward: 0 });
    expect(amber).toMatchObject({
      status: 'failed',
      failure: { message: expect.stringContaining('the model is ill') },
    });
  });

  it('is learned by the tiny model, from chance to above 0.9', async ({ skip }) => {
    if (!server) return skip('it cannot be installed');
    const engine = await createEmbeddedEngine();
    onTestFinished(() => engine.close());
    const service = await startService({ engine, dataFolder: join(folder, 'data') });
    onTestFinished(() => service.close());
    const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
    onTestFinished(() => client.close());
    const { environment, scenarios } = await verifiersTasks(url, {
      tool_choice: 'none',
      extra_body: { structured_outputs: { choice: ['stop', 'slow', 'go'] } },
    });
    const { reports } = await train({
      environment,
      scenarios,
      client,
      model: { project: 'verifiers', name: 'lights', baseModel: 'martingale-tiny' },
      steps: 25,
      groupsPerStep: 3,
      rolloutsPerGroup: 16,
      config: { learning_rate: 1e-3, entropy_coefficient: 0.01 },
      seed: 1,
      runDirectory: join(folder, 'run'),
      progress: false,
      ...untilReward(0.9),
    });
    expect(reports.every(({ completed }) => completed === 48)).toBe(true);
    expect(reports[0]?.reward).toBeLessThan(0.6);
    expect(reports.at(-1)?.reward).toBeGreaterThan(0.9);
  });
});
