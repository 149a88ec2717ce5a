import { spawnSync } from 'node:child_process';
import { chmod, cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runGroups } from 'martingale';
import { harborTasks, localSandbox } from 'martingale/environments';
import { type ScriptedReply, scriptedModel } from 'martingale/testing';
import { stringify } from 'smol-toml';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { parseTaskConfig, type TaskConfig } from '../../../src/formats/harbor/task-config.ts';
import { temporaryFolder } from '../../support/files.ts';
import { goldenTasks, goldenTomlOf } from './golden-tasks.ts';
import { hasBubblewrap } from './has-bubblewrap.ts';
import { taskFolder } from './task-folder.ts';

const bash = (command: string): ScriptedReply => ({ toolCalls: [{ name: 'bash', arguments: { command } }] });

/** One rollout whose model runs commands, one in each turn, and then speaks. */
async function rollOut(files: Record<string, string>, ...commands: string[]) {
  return rollOutWith({}, files, ...commands);
}

async function rollOutWith(
  options: { commandTimeoutMs?: number },
  files: Record<string, string>,
  ...commands: string[]
) {
  const folder = await taskFolder(files);
  const { environment, scenarios } = await harborTasks(folder, { sandbox: localSandbox(), ...options });
  const read: string[] = [];
  const model = scriptedModel(({ messages }) => {
    read.splice(0, read.length, ...messages.map(({ content }) => JSON.stringify(content)));
    const command = commands[messages.filter(({ role }) => role === 'assistant').length];
    return command === undefined ? { text: 'done' } : bash(command);
  });
  const { groups } = await runGroups({ environment, scenarios, rolloutsPerGroup: 1, model });
  const [rollout] = groups.flatMap((group) => group.rollouts);
  return { rollout, trajectory: groups[0]?.trajectories[0], read: read.join('\n') };
}

const failureOf = ({ rollout }: Awaited<ReturnType<typeof rollOut>>) =>
  rollout?.status === 'failed' ? rollout.failure.message : rollout?.status;

/** What is left of this process's sandboxes. */
const left = async () =>
  (await readdir(join(tmpdir(), `martingale-sandboxes-${process.getuid?.()}`))).filter((name) =>
    name.startsWith(`${process.pid}-`),
  );

describe.skipIf(!hasBubblewrap)('harborTasks', () => {
  it('rewards what the tests of the task say about the files the agent left', async () => {
    const { trajectory, read } = await rollOut(
      {},
      'pwd; cat given.txt; echo $((QUESTION)) > answer.txt; false',
    );
    expect(trajectory?.reward).toBe(1);
    expect(trajectory?.metrics).toMatchObject({ reward: 1, style: 0.5 });
    expect(read).toContain('/app\\n42');
    expect(read).toContain('[exit code 1]');
    expect(await left()).toEqual([]);
  });

  it('reads reward.txt, and never what the agent has put in its place', async () => {
    const plant =
      'echo 9 > /logs/verifier/reward.txt; echo \'{"reward":9}\' > /logs/verifier/reward.json; echo 1 > /tests/expected.txt';
    expect((await rollOut({}, plant)).trajectory?.reward).toBe(0.25);
  });

  it('keeps the machine from the agent: its files and its variables', async () => {
    const folder = await taskFolder();
    const { read } = await rollOut({}, `cat ${folder}/answer/task.toml; touch /usr/x; env; ls /home`);
    expect(read).toContain('No such file');
    expect(read).toContain('Read-only file system');
    expect(read).not.toContain('VITEST');
  });

  it('kills a command at its timeout with what it has started', async () => {
    const { read } = await rollOutWith({ commandTimeoutMs: 1000 }, {}, 'sleep 1000 & sleep 1000');
    expect(read).toContain('[killed after 1 s]');
  });

  it.each([
    ['no reward', '#!/bin/bash\necho here', 'wrote neither reward.json nor reward.txt'],
    ['an unreadable one', '#!/bin/bash\necho NaN > /logs/verifier/reward.txt', 'no finite rewards: NaN'],
    [
      'several without a main one',
      '#!/bin/bash\necho \'{"a":1,"b":0}\' > /logs/verifier/reward.json',
      'no finite rewards',
    ],
  ])('fails a rollout whose tests write %s', async (_, script, message) => {
    expect(failureOf(await rollOut({ 'tests/test.sh': script }))).toContain(message);
  });

  it('copies a file as a program if it is one, under the name that the task gives it', async () => {
    const folder = await taskFolder({
      'environment/Dockerfile': 'FROM a\nWORKDIR /app\nCOPY given.sh deep/run.sh\n',
      'environment/given.sh': '#!/bin/bash\necho 42\n',
    });
    await chmod(join(folder, 'answer/environment/given.sh'), 0o755);
    const { environment, scenarios } = await harborTasks(folder, { sandbox: localSandbox() });
    const model = scriptedModel(({ messages }) =>
      messages.length > 1 ? { text: 'done' } : bash('deep/run.sh > answer.txt'),
    );
    const { groups } = await runGroups({ environment, scenarios, rolloutsPerGroup: 1, model });
    expect(groups[0]?.rollouts[0]).toMatchObject({ status: 'completed', reward: 1 });
  });

  it('ends the command of a rollout that is cancelled, and its sandbox', async () => {
    const stop = new AbortController();
    const folder = await taskFolder();
    const { environment, scenarios } = await harborTasks(folder, { sandbox: localSandbox() });
    const model = scriptedModel(() => {
      setTimeout(() => stop.abort(new Error('Ctrl-C')), 300);
      return bash('sleep 1000');
    });
    const startedAt = performance.now();
    const { counts } = await runGroups({
      ...{ environment, scenarios, model },
      rolloutsPerGroup: 1,
      signal: stop.signal,
    });
    expect(counts).toMatchObject({ cancelled: 1 });
    expect(performance.now() - startedAt).toBeLessThan(60_000);
    expect(await left()).toEqual([]);
  });

  it('fails a rollout whose disk is full, and leaves nothing there', async (context) => {
    const disk = await temporaryFolder();
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', disk]).status !== 0)
      return context.skip('only root can make a small disk');
    onTestFinished(() => void spawnSync('umount', ['--lazy', disk]));
    vi.stubEnv('TMPDIR', disk);
    const { rollout } = await rollOut({}, 'head -c 100M /dev/zero > big; echo $((QUESTION)) > answer.txt');
    const files = await readdir(disk, { recursive: true });
    vi.unstubAllEnvs();
    expect(rollout).toMatchObject({ status: 'failed', failure: { code: 'reward_failed' } });
    expect(files.filter((name) => name.includes(`${process.pid}-`))).toEqual([]);
  });

  it('fails a rollout whose tests do not end', async () => {
    const files = {
      'tests/test.sh': '#!/bin/bash\nsleep 1000',
      'task.toml': '[verifier]\ntimeout_sec = 0.3\n',
    };
    expect(failureOf(await rollOut(files))).toContain('did not end within verifier.timeout_sec (0.3)');
    expect(await left()).toEqual([]);
  });

  it.each([
    [{ 'task.toml': 'schema_version = "9.0"' }, 'schema_version ("9.0")'],
    [{ 'task.toml': '[environment]\ngpus = 2' }, 'environment.gpus (2)'],
    [{ 'task.toml': '[verifier]\nenvironment_mode = "separate"' }, 'verifier.environment_mode ("separate")'],
    [{ 'task.toml': '[[steps]]\nname = "a"' }, 'steps ([{"name":"a"}])'],
    [{ 'task.toml': 'artifacts = ["/a"]\n[environment]\ngpus = 1' }, 'environment.gpus (1)'],
    [{ 'task.toml': 'artifacts = ["/a"]\n[environment]\ngpus = 1' }, 'artifacts (["/a"])'],
    [
      { 'task.toml': '[environment.healthcheck]\ncommand = "a"' },
      'environment.healthcheck ({"command":"a"})',
    ],
    [{ 'task.toml': '[environment]\nmemory = "2 tons"' }, 'environment.memory ("2 tons") is not supported'],
    [{ 'task.toml': '[environment]\nmemory = "1K"' }, 'environment.memory ("1K")'],
    [{ 'task.toml': '[environment]\nstorage = 10' }, 'environment.storage (10)'],
    [{ 'task.toml': '[environment]\nmemory = "2G"\nmemory_mb = 512' }, 'memory_mb says 512'],
    [
      { 'task.toml': '[agent]\nnetwork_mode = "no-network"' },
      'agent.network_mode ("no-network") is not supported: a rollout keeps the network of environment.network_mode (public)',
    ],
    [{ 'task.toml': '[environment]\nnetwork_mode = "allowlist"' }, 'environment.network_mode ("allowlist")'],
    [{ 'task.toml': '[environment]\nallowed_hosts = ["a.b"]' }, 'environment.allowed_hosts (["a.b"])'],
    [{ 'task.toml': '[' }, 'is no TOML'],
    [{ 'task.toml': `[verifier.env]\nKEY = "\${NOT_SET_ANYWHERE}"` }, 'NOT_SET_ANYWHERE'],
    [{ 'environment/docker-compose.yaml': 'services: {}' }, 'environment/docker-compose.yaml'],
    [{ 'environment/Dockerfile': 'FROM a\nRUN make' }, '"RUN make" needs dockerSandbox()'],
  ])('refuses %o', async (files: Record<string, string>, message) => {
    const folder = await taskFolder(files);
    await expect(harborTasks(folder, { sandbox: localSandbox() })).rejects.toMatchObject({
      ...{ code: 'task_unsupported', message: expect.stringContaining(message) },
    });
  });

  it('puts the files of a task whose image is not built from them where the agent works', async () => {
    const folder = await taskFolder({ 'task.toml': '[environment]\ndocker_image = "a"\nworkdir = "/w"' });
    await rm(join(folder, 'answer/environment/Dockerfile'));
    const { environment, scenarios } = await harborTasks(folder, { sandbox: localSandbox() });
    const model = scriptedModel(({ messages }) =>
      messages.length > 1 ? { text: 'done' } : bash('mkdir /app; cp /w/given.txt /app/answer.txt'),
    );
    const { groups } = await runGroups({ environment, scenarios, rolloutsPerGroup: 1, model });
    expect(groups[0]?.rollouts[0]).toMatchObject({ status: 'completed', reward: 1 });
  });

  it('names each task of a folder that cannot be run, and says how to run the others', async () => {
    const folder = await taskFolder();
    for (const [name, toml] of Object.entries({ a: '[environment]\ngpus = 2', b: 'artifacts = ["/x"]' })) {
      await cp(join(folder, 'answer'), join(folder, name), { recursive: true });
      await writeFile(join(folder, name, 'task.toml'), toml);
    }
    const { message } = await harborTasks(folder, { sandbox: localSandbox() }).catch((error) => error);
    expect(message).toContain(`2 of 3 tasks of ${folder} cannot be run here:`);
    expect(message).toContain(`${folder}/a/task.toml: environment.gpus (2)`);
    expect(message).toContain(`${folder}/b/task.toml: artifacts (["/x"])`);
    expect(message).toContain('To run the other 1, move these folders elsewhere.');
  });
});

/** What a rollout rests on. */
function meaningOf({ agent, verifier, environment }: TaskConfig) {
  const { docker_image, build_timeout_sec, cpus, memory_mb, network_mode, env, workdir } = environment;
  return {
    agent: { timeout_sec: agent.timeout_sec, user: agent.user },
    verifier: { timeout_sec: verifier.timeout_sec, user: verifier.user, env: verifier.env },
    environment: { docker_image, build_timeout_sec, cpus, memory_mb, network_mode, env, workdir },
  };
}

describe('task.toml', () => {
  const read = async (toml: string) => await parseTaskConfig(toml, 'task.toml');

  it.each(Object.keys(goldenTasks))('is read as Harbor writes it: %s', async (name) => {
    const written = await read(await readFile(goldenTomlOf(name), 'utf8'));
    const given = await read(stringify(goldenTasks[name] ?? {}));
    expect(meaningOf(written)).toEqual(meaningOf(given));
  });

  it('has sizes and the network under their old names too', async () => {
    const { environment } = await read('[environment]\nmemory = "1.5g"\nallow_internet = false');
    expect(environment).toMatchObject({ memory_mb: 1536, network_mode: 'no-network' });
    const both = await read(
      '[environment]\nmemory = "2G"\nmemory_mb = 2048\nallow_internet = false\nnetwork_mode = "public"',
    );
    expect(both.environment).toMatchObject({ memory_mb: 2048, network_mode: 'public' });
  });

  it('may say more than JavaScript can count', async () => {
    await expect(read(`[metadata]\nid = ${2n ** 62n}`)).resolves.toBeDefined();
    await expect(read(`[environment]\ncpus = ${2n ** 62n}`)).rejects.toThrow(
      'environment.cpus ("4611686018427387904")',
    );
  });
});
