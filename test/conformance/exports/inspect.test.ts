import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { readRun } from '../../../src/training/index.ts';
import { output } from '../../support/command.ts';
import { temporaryFolder } from '../../support/files.ts';
import { makeRun } from '../../view/make-run.ts';
import { pythonEnvironment } from '../python-environment.ts';

const script = `
import json, sys
from inspect_ai.log import read_eval_log
log = read_eval_log(sys.argv[1])
print(json.dumps({
    "status": log.status,
    "task": log.eval.task,
    "mean": log.results.scores[0].metrics["mean"].value,
    "samples": [[s.id, s.epoch, s.scores["reward"].value if s.scores else None, s.messages[-1].text if s.messages else None] for s in log.samples],
}))
`;

it('inspect_ai reads the log of a run: scenarios as samples, rollouts as epochs', { tags: ['long'] }, async ({
  skip,
}) => {
  const environment = await pythonEnvironment({
    what: 'that inspect_ai reads the log of a run',
    requirements: ['inspect_ai==0.3.285'],
  });
  if (!environment) return skip('inspect_ai cannot be installed');
  const folder = await temporaryFolder();
  await makeRun({ runDirectory: join(folder, 'desk'), steps: 1, groupsPerStep: 3, rolloutsPerGroup: 3 });
  const file = join(folder, 'desk.json');
  await output(['export', 'desk', '--in', folder, '--to', 'inspect', '--step', '0', '--out', file]);
  const { stdout } = await promisify(execFile)(environment.python, ['-c', script, file]);
  const log = JSON.parse(stdout);
  const expected: unknown[] = [];
  const rewards: number[] = [];
  for await (const { group, rollouts, trajectories } of (await readRun(join(folder, 'desk'))).groups(0))
    for (const [at, rollout] of rollouts.entries()) {
      if (rollout.status !== 'completed') {
        expected.push([`step-0000/${group}`, at + 1, null, expect.anything()]);
        continue;
      }
      rewards.push(rollout.reward);
      const last = trajectories[rollout.trajectory]?.messages_and_choices.at(-1);
      const text = last && 'message' in last ? last.message.content : '';
      expected.push([`step-0000/${group}`, at + 1, rollout.reward, text]);
    }
  expect(log).toMatchObject({ status: 'success', task: 'ticket desk', samples: expected });
  expect(log.mean).toBeCloseTo(rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length, 9);
});
