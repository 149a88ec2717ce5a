import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { generateText } from 'ai';
import { runGroups } from 'martingale';
import { harborTasks, localSandbox } from 'martingale/environments';
import { scriptedModel } from 'martingale/testing';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { hasBubblewrap } from '../../formats/harbor/has-bubblewrap.ts';
import { temporaryFolder } from '../../support/files.ts';
import { pythonEnvironment } from '../python-environment.ts';

let python: string | undefined;

beforeAll(async () => {
  const environment = await pythonEnvironment({
    what: 'task folders of Harbor with rewardkit',
    requirements: [
      ...['harbor-rewardkit==0.2.3', 'pydantic==2.14.3', 'pydantic-core==2.50.4'],
      ...['annotated-types==0.8.0', 'typing-extensions', 'typing-inspection'],
    ],
    // Without litellm, which takes 300 MB and seconds to load, and only asks models for grades.
    pipArguments: ['--no-deps'],
    minor: 12,
  });
  python = environment?.python;
}, 600_000);

const signals = { red: 'stop', amber: 'slow', green: 'go' };

/** A task for each light: the right word is to be written to a file. */
async function lightTasks(folder: string, interpreter: string, library: string): Promise<void> {
  for (const [light, word] of Object.entries(signals)) {
    const files = {
      'task.toml': 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n',
      'instruction.md': light,
      'tests/checks.py': `from rewardkit import criteria\n\ncriteria.file_contains("word.txt", "${word}")\n`,
      'tests/test.sh': `#!/bin/bash\nPYTHONPATH=${library} ${interpreter} -m rewardkit /tests\n`,
    };
    for (const [name, text] of Object.entries(files)) {
      const path = join(folder, light, name);
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
    }
  }
}

it('the tests of a task may use harbor-rewardkit: its grade is the reward', {
  tags: ['long'],
}, async ({ skip }) => {
  if (!python) return skip('it cannot be installed');
  if (!hasBubblewrap) return skip('there is no bubblewrap');
  const folder = await temporaryFolder();
  // In a sandbox, the machine's own `/dev` is not there.
  const library = await mkdtemp('/tmp/library-');
  onTestFinished(() => rm(library, { recursive: true, force: true }));
  await writeFile(join(library, 'litellm.py'), 'REASONING_EFFORT = str\n');
  await lightTasks(join(folder, 'tasks'), python, library);
  const base = execFileSync(python, ['-c', 'import sys; print(sys.base_prefix)']).toString().trim();
  const { environment, scenarios } = await harborTasks(join(folder, 'tasks'), {
    sandbox: localSandbox({ folders: [base, dirname(dirname(python)), library] }),
    agent: async ({ model, sandbox, instruction, signal }) => {
      const { text } = await generateText({
        model: model.languageModel,
        prompt: instruction,
        abortSignal: signal,
      });
      await sandbox.write('/app/word.txt', text, { signal });
      return text;
    },
  });
  // Right for one light of the three.
  const { groups, counts } = await runGroups({
    ...{ environment, scenarios, rolloutsPerGroup: 1 },
    model: scriptedModel(() => 'stop'),
  });
  expect(counts).toMatchObject({ dispatched: 3, completed: 3 });
  const rewards = groups.map(({ trajectories, scenario }) => [scenario, trajectories[0]?.reward]);
  expect(rewards).toEqual([
    [{ task: 'amber' }, 0],
    [{ task: 'green' }, 0],
    [{ task: 'red' }, 1],
  ]);
});
