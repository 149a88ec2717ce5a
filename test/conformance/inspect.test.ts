import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { readRun } from '../../src/training/index.ts';
import { output } from '../support/command.ts';
import { temporaryFolder } from '../support/files.ts';
import { makeRun } from '../view/make-run.ts';
import { pythonEnvironment } from './python-environment.ts';
import { apiKey, baseModel, service } from './support.ts';

/** Prints what it reads in a log. */
const reading = `
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

/** Prints how tasks end in which the model answers, calls a tool, writes JSON, plays its own loop, and gets too much. */
const evaluating = `
import json
from inspect_ai import Task, eval
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, ResponseSchema
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool
from inspect_ai.util import json_schema
from pydantic import BaseModel
from typing import Literal

class Verdict(BaseModel):
    refund: bool

@tool
def track():
    async def execute(order: Literal["6662", "6663"]):
        """Tracks an order.

        Args:
            order: Its number.
        """
        return "order " + order + " is on its way"
    return execute

def run(solver, config, text="where is order 6662", scorer=match()):
    [log] = eval(
        Task(dataset=[Sample(input=text, target="sent")], solver=solver, scorer=scorer),
        model="openai-api/local/MODEL", display="none", log_dir="logs", message_limit=6, max_retries=0, **config,
    )
    if log.error or log.samples[0].error:
        return str(log.error or log.samples[0].error)
    [sample] = log.samples
    messages = [[message.role, message.text] for message in sample.messages]
    return [sample.output.stop_reason, sample.score.value, messages, len(sample.output.choices)]

sampled = dict(
    seed=7, temperature=0.5, top_p=0.9, frequency_penalty=0.1, presence_penalty=0.1, stop_seqs=["zz"],
    logprobs=True, top_logprobs=3, num_choices=2, logit_bias={5: 1.0}, max_tokens=20,
)
print(json.dumps({
    "answer": run(generate(), {**sampled, "extra_body": {"structured_outputs": {"choice": ["sent"]}}}),
    "tool": run([use_tools(track(), tool_choice="any"), generate("single")], dict(parallel_tool_calls=False)),
    "schema": run(generate(), dict(response_schema=ResponseSchema(name="verdict", json_schema=json_schema(Verdict), strict=True))),
    "loop": run(react(tools=[track()]), dict(max_tokens=8), scorer=includes()),
    "long": run(generate(), dict(), text="word " * 2000),
}))
`;

const requirements = ['inspect_ai==0.3.285', 'openai==3.57.0'];
const running = service();

it('inspect_ai evaluates a model of the service: tools, JSON, its own loop, a prompt that is too long', {
  tags: ['long'],
}, async ({ skip }) => {
  const what = 'that inspect_ai evaluates a model of the service';
  const environment = await pythonEnvironment({ what, requirements });
  if (!environment) return skip('inspect_ai cannot be installed');
  const script = evaluating.replace('MODEL', baseModel);
  const env = { ...process.env, LOCAL_API_KEY: apiKey, LOCAL_BASE_URL: `${running.url}/v1` };
  const options = { env, cwd: await temporaryFolder() };
  const { stdout } = await promisify(execFile)(environment.python, ['-c', script], options);
  const { answer, tool, schema, loop, long } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
  const asked = ['user', 'where is order 6662'];
  expect(answer).toEqual(['stop', 'C', [asked, ['assistant', 'sent']], 2]);
  expect(tool[2].slice(0, 3)).toEqual([
    asked,
    ['assistant', expect.any(String)],
    ['tool', expect.stringMatching(/^order 666[23] is on its way$/)],
  ]);
  expect(JSON.parse(schema[2][1][1])).toEqual({ refund: expect.any(Boolean) });
  expect(loop[2].length).toBeGreaterThan(3);
  expect(long[0]).toBe('model_length');
});

it('inspect_ai reads the log of a run: scenarios as samples, rollouts as epochs', { tags: ['long'] }, async ({
  skip,
}) => {
  const environment = await pythonEnvironment({
    what: 'that inspect_ai reads the log of a run',
    requirements,
  });
  if (!environment) return skip('inspect_ai cannot be installed');
  const folder = await temporaryFolder();
  await makeRun({ runDirectory: join(folder, 'desk'), steps: 1, groupsPerStep: 3, rolloutsPerGroup: 3 });
  const file = join(folder, 'desk.json');
  await output(['export', 'desk', '--in', folder, '--to', 'inspect', '--step', '0', '--out', file]);
  const { stdout } = await promisify(execFile)(environment.python, ['-c', reading, file]);
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
