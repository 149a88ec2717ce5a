import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { readRun } from '../../../src/training/index.ts';
import { output } from '../../support/command.ts';
import { temporaryFolder } from '../../support/files.ts';
import { makeRun } from '../../view/make-run.ts';
import { pythonEnvironment } from '../python-environment.ts';

const script = `
import glob, json, sys
from harbor.models.trajectories import Trajectory
rewards = {}
for file in glob.glob(sys.argv[1] + "/*.json"):
    trajectory = Trajectory.model_validate_json(open(file).read())
    assert all(len(s.metrics.completion_token_ids) == len(s.metrics.logprobs) for s in trajectory.steps if s.metrics)
    rewards[file.split("/")[-1]] = trajectory.extra["reward"]
print(json.dumps(rewards))
`;

it("Harbor's models accept every rollout that export writes as ATIF", { tags: ['long'] }, async ({
  skip,
}) => {
  const environment = await pythonEnvironment({
    what: 'that Harbor reads rollouts as ATIF',
    requirements: [
      'harbor==0.25.0',
      'pydantic==2.14.3',
      'pydantic-core==2.50.4',
      'annotated-types==0.8.0',
      'typing-extensions==4.16.0',
      'typing-inspection==0.4.5',
    ],
    pipArguments: ['--no-deps'],
    minor: 12,
  });
  if (!environment) return skip('harbor cannot be installed');
  const folder = await temporaryFolder();
  await makeRun({ runDirectory: join(folder, 'desk'), steps: 1, groupsPerStep: 4, rolloutsPerGroup: 4 });
  const to = join(folder, 'atif');
  const args = ['export', 'desk', '--in', folder, '--to', 'atif', '--step', '0', '--out', to];
  await output(args);
  const { stdout } = await promisify(execFile)(environment.python, ['-c', script, to]);
  const expected: Record<string, number | null> = {};
  for await (const { group, rollouts } of (await readRun(join(folder, 'desk'))).groups(0))
    for (const [at, rollout] of rollouts.entries())
      expected[`step-0000-group-${group}-rollout-${at}.json`] =
        rollout.status === 'completed' ? rollout.reward : null;
  expect(JSON.parse(stdout)).toEqual(expected);
  expect(await readdir(to)).toHaveLength(16);
});
