import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { generateText } from 'ai';
import { createClient, train } from 'martingale';
import { createEmbeddedEngine } from 'martingale/embedded';
import { harborTasks, localSandbox } from 'martingale/environments';
import { startService } from 'martingale/service';
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

it('the tiny model learns task folders whose tests use harbor-rewardkit, from chance to above 0.9', {
  tags: ['long'],
  timeout: 600_000,
}, async ({ skip }) => {
  if (!python) return skip('it cannot be installed');
  if (!hasBubblewrap) return skip('there is no bubblewrap');
  const folder = await temporaryFolder();
  const library = join(folder, 'library');
  await mkdir(library);
  await writeFile(join(library, 'litellm.py'), 'REASONING_EFFORT = str\n');
  await lightTasks(join(folder, 'tasks'), python, library);
  const base = execFileSync(python, ['-c', 'import sys; print(sys.base_prefix)']).toString().trim();
  const { environment, scenarios } = await harborTasks(join(folder, 'tasks'), {
    sandbox: localSandbox({ maxSandboxes: 4, folders: [base, dirname(dirname(python)), library] }),
    agent: async ({ model, sandbox, instruction, signal }) => {
      const { text } = await generateText({
        model: model.languageModel,
        prompt: instruction,
        providerOptions: { martingale: { structured_outputs: { choice: Object.values(signals) } } },
        abortSignal: signal,
      });
      await sandbox.write('/app/word.txt', text, { signal });
    },
  });
  const engine = await createEmbeddedEngine();
  onTestFinished(() => engine.close());
  const service = await startService({ engine, dataFolder: join(folder, 'data') });
  onTestFinished(() => service.close());
  const client = createClient({ baseUrl: service.url, apiKey: service.apiKey });
  onTestFinished(() => client.close());
  const { reports } = await train({
    environment,
    scenarios,
    client,
    model: { project: 'tasks', name: 'lights', baseModel: 'martingale-tiny' },
    steps: 10,
    groupsPerStep: 3,
    rolloutsPerGroup: 8,
    config: { learning_rate: 2e-3, entropy_coefficient: 0.01 },
    seed: 1,
    runDirectory: join(folder, 'run'),
    progress: false,
  });
  expect(reports.every(({ completed }) => completed === 24)).toBe(true);
  expect(reports[0]?.reward).toBeLessThan(0.6);
  expect(Math.max(...reports.slice(-5).map(({ reward }) => reward))).toBeGreaterThan(0.9);
});
