import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runGroups } from 'martingale';
import { dockerSandbox, harborTasks } from 'martingale/environments';
import { scriptedModel } from 'martingale/testing';
import { expect, it } from 'vitest';
import { temporaryFolder } from '../../support/files.ts';
import { taskFolder } from './task-folder.ts';

/** A program that writes down how it is called, runs nothing, and at first refuses `failing` so many times. */
async function recordingDocker(failing = '', times = 0) {
  const folder = await temporaryFolder();
  const program = join(folder, 'docker');
  const log = join(folder, 'log');
  await writeFile(
    program,
    `#!/bin/bash\necho "$*" >> ${log}\n[ "$1" != "${failing}" ] || [ "$(grep -c "^$1 " ${log})" -gt ${times} ] || { echo busy >&2; exit 1; }\n`,
    { mode: 0o755 },
  );
  return { program, calls: async () => (await readFile(log, 'utf8')).split('\n') };
}

async function rollOut(program: string, taskToml: string, rollouts = 1) {
  const folder = await taskFolder({ 'task.toml': taskToml });
  const { environment, scenarios } = await harborTasks(folder, { sandbox: dockerSandbox({ program }) });
  const messages: (string | undefined)[] = [];
  for (let n = 0; n < rollouts; n++) {
    const model = scriptedModel(() => ({ text: 'done' }));
    const { groups } = await runGroups({ environment, scenarios, rolloutsPerGroup: 1, model });
    const rollout = groups[0]?.rollouts[0];
    messages.push(rollout?.status === 'failed' ? rollout.failure.message : undefined);
  }
  return messages;
}

it('a container is made with the processors, memory and network of its task', async () => {
  const { program, calls } = await recordingDocker();
  const environment = '[environment]\ncpus = 1.5\nmemory_mb = 512\nworkdir = "/w"\nenv = { A = "b c" }\n';
  await rollOut(program, `${environment}network_mode = "no-network"\n`);
  const run = (await calls()).find((call) => call.startsWith('run '));
  expect(run).toMatch(/ --network none --cpus 1\.5 --memory 512m --workdir \/w --env A --entrypoint /);
});

it('a container has the memory that an older task asks for by the old name', async () => {
  const { program, calls } = await recordingDocker();
  await rollOut(program, '[environment]\nmemory = "2G"\nstorage = "10G"\n');
  expect((await calls()).find((call) => call.startsWith('run '))).toContain(' --memory 2048m ');
});

it('a container without limits in its task has none, and the network', async () => {
  const { program, calls } = await recordingDocker();
  await rollOut(program, '[environment]\nnetwork_mode = "public"\n');
  const run = (await calls()).find((call) => call.startsWith('run '));
  expect(run).toMatch(/^run --detach --name \S+ --entrypoint sleep \S+ infinity$/);
});

it('a search for old containers that fails once fails one rollout, not those after it', async () => {
  const { program, calls } = await recordingDocker('ps', 1);
  const [first, second] = await rollOut(program, '', 2);
  expect(first).toMatch(/docker ps` failed: busy/);
  expect(second).not.toMatch(/docker ps/);
  expect((await calls()).filter((call) => call.startsWith('ps '))).toHaveLength(2);
  expect((await calls()).filter((call) => call.startsWith('run '))).toHaveLength(1);
});
