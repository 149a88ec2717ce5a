import { runGroups } from 'martingale';
import { type HarborAgentContext, harborTasks, localSandbox } from 'martingale/environments';
import { scriptedModel } from 'martingale/testing';
import { describe, expect, it } from 'vitest';
import { hasBubblewrap } from './has-bubblewrap.ts';
import { taskFolder } from './task-folder.ts';

const shortTime = '[agent]\ntimeout_sec = 0.4\n[environment]\nnetwork_mode = "no-network"\n';
/** Tests that take a while after they have written the reward. */
const slowTests = '#!/bin/bash\necho 0 > /logs/verifier/reward.txt; sleep 0.6\n';

async function rollOut(agent: (context: HarborAgentContext) => Promise<unknown>) {
  const folder = await taskFolder({ 'task.toml': shortTime, 'tests/test.sh': slowTests });
  const { environment, scenarios } = await harborTasks(folder, { sandbox: localSandbox(), agent });
  const model = scriptedModel(() => ({ text: 'I see.' }));
  const { groups } = await runGroups({ environment, scenarios, rolloutsPerGroup: 1, model });
  return groups[0]?.rollouts[0];
}

const ask = ({ model, instruction }: HarborAgentContext) =>
  model.languageModel.doGenerate({
    prompt: [{ role: 'user', content: [{ type: 'text', text: instruction }] }],
  });

const cheat = 'echo 1 > /logs/verifier/reward.txt';

describe.skipIf(!hasBubblewrap)('an agent of ours', () => {
  it('is told that its time is over, and the tests say what it has reached', async () => {
    const rollout = await rollOut(async (context) => {
      await ask(context);
      const { sandbox, signal } = context;
      await sandbox.exec('sleep 1000', { timeoutMs: 60_000, signal });
    });
    expect(rollout).toMatchObject({
      status: 'completed',
      reward: 0,
      trajectory: { stopReason: 'agent_timeout' },
    });
  });

  it('that goes on after its time cannot write the reward', async () => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const rollout = await rollOut(async (context) => {
      await ask(context);
      const { sandbox, signal } = context;
      const options = { timeoutMs: 60_000, signal: new AbortController().signal };
      const before = sandbox.exec(`sleep 0.8; ${cheat}`, options).catch((error: unknown) => error);
      await new Promise((done) => signal.addEventListener('abort', done));
      resolve([await before, await sandbox.exec(cheat, options).catch((error: unknown) => error)]);
    });
    const refused = { code: 'sandbox_failed', message: expect.stringMatching(/the agent has ended/) };
    expect(await promise).toMatchObject([refused, refused]);
    expect(rollout).toMatchObject({ status: 'completed', reward: 0 });
  });
});
