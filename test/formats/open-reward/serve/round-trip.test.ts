import fc from 'fast-check';
import { type Environment, runGroups } from 'martingale';
import { openReward, serveEnvironment } from 'martingale/environments';
import { type ScriptedReply, scriptedModel } from 'martingale/testing';
import { describe, expect, it, onTestFinished } from 'vitest';
import { testScale, testSeed } from '../../../support/size.ts';
import { guess, safe } from './environments.ts';

/** One rollout by a script, and what its model was asked, without the ids of calls. */
async function played(environment: Environment, scenario: unknown, script: readonly ScriptedReply[]) {
  const asked: unknown[] = [];
  let count = 0;
  const model = scriptedModel(({ messages, tools }) => {
    asked.push({
      messages: messages.map((message) => ({
        role: message.role,
        content: message.content,
        calls: 'tool_calls' in message ? message.tool_calls?.map((call) => call.function) : undefined,
      })),
      tools,
    });
    return script[count++] ?? 'that is all';
  });
  const { groups } = await runGroups({ environment, scenarios: [scenario], rolloutsPerGroup: 1, model });
  const [rollout] = groups[0]?.rollouts ?? [];
  if (rollout?.status !== 'completed') throw new Error(JSON.stringify(rollout?.failure));
  return { reward: rollout.reward, steps: rollout.trajectory.calls.map(({ reward }) => reward), asked };
}

const call = (name: string, values: object): ScriptedReply => ({ toolCalls: [{ name, arguments: values }] });

describe('an environment that is served', () => {
  it('asks its model the same and gives the same rewards as one that runs here', async () => {
    const environment = safe();
    const codes = [3, 7];
    const server = await serveEnvironment({
      environment,
      scenarios: { train: codes.map((code) => ({ code })), test: [{ code: 1 }] },
    });
    onTestFinished(() => server.close());
    const client = await openReward(server.url, { apiKey: server.apiKey });
    onTestFinished(() => client.close());
    expect([client.environment.name, client.splits]).toEqual(['safe', ['train', 'test']]);
    const scenarios = await client.scenarios('train');
    const digit = fc.integer({ min: 0, max: 9 });
    const action = fc.oneof(
      { weight: 6, arbitrary: digit.map((value) => call('dial', { digit: value })) },
      fc.constantFrom(call('dial', { digit: 'x' }), call('dial', {}), call('kick', {})),
      fc.constantFrom<ScriptedReply>('it was 3', 'I give up', ''),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 6 }), fc.constantFrom(0, 1), async (script, index) => {
        const here = await played(environment, { code: codes[index] }, script);
        const served = await played(client.environment, scenarios[index], script);
        expect(served.asked).toEqual(here.asked);
        expect(served.reward).toBeCloseTo(here.reward, 10);
        // The reward of the end belongs to the last reply there.
        expect(served.steps.slice(0, -1)).toEqual(here.steps.slice(0, -1));
      }),
      { numRuns: 40 * testScale, seed: testSeed },
    );
  });

  it('converses in words, which the environment answers until it has nothing more to say', async () => {
    const server = await serveEnvironment({ environment: guess, scenarios: { train: [{ secret: 6 }] } });
    onTestFinished(() => server.close());
    const client = await openReward(server.url, { apiKey: server.apiKey });
    onTestFinished(() => client.close());
    const [scenario] = await client.scenarios('train');
    for (const script of [['6'], ['1', '9', '6'], ['1', '2', '3', '4', '5', '5', '6'], ['', '6']]) {
      const here = await played(guess, { secret: 6 }, script);
      const served = await played(client.environment, scenario, script);
      expect(served.asked).toEqual(here.asked);
      expect(served.reward).toBeCloseTo(here.reward, 10);
    }
  });

  it('completes more rollouts at a time than it has sessions', async () => {
    const server = await serveEnvironment({
      environment: guess,
      scenarios: { train: [{ secret: 6 }] },
      maxSessions: 15,
    });
    onTestFinished(() => server.close());
    const client = await openReward(server.url, { apiKey: server.apiKey });
    onTestFinished(() => client.close());
    const { counts } = await runGroups({
      environment: client.environment,
      scenarios: await client.scenarios('train'),
      rolloutsPerGroup: 30,
      model: scriptedModel(() => '6'),
    });
    expect(counts).toMatchObject({ dispatched: 30, completed: 30 });
  });
});
