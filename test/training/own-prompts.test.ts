import { join } from 'node:path';
import { generateText, type JSONValue, jsonSchema, stepCountIs, tool } from 'ai';
import { defineEnvironment, openModel, runGroups, train } from 'martingale';
import { followJob, submitTraining } from 'martingale/loop';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { baseModel, type RealService, startRealService } from '../model/real-service.ts';

type Call = Partial<Omit<Parameters<typeof generateText>[0], 'model' | 'prompt' | 'messages'>>;

const given = (martingale: Record<string, JSONValue>): Call => ({ providerOptions: { martingale } });
const documents = [{ text: 'something' }];
const look = tool({
  inputSchema: jsonSchema({ type: 'object', properties: { at: { enum: ['it', 'him'] } } }),
  execute: () => 'a cat',
});

/** Calls whose prompts do not follow from messages alone, and calls with sampling settings. */
const calls: Record<string, Call> = {
  reasoning: { reasoning: 'low', maxOutputTokens: 44 },
  documents: given({ documents }),
  both: {
    reasoning: 'low',
    maxOutputTokens: 44,
    temperature: 0.8,
    ...given({ documents, bad_words: ['e'] }),
  },
  template: given({ chat_template: '{% for message in messages %}{{ message.content }} {% endfor %}' }),
  continued: given({ continue_final_message: true }),
  begun: given({ add_special_tokens: true, min_p: 0.01, repetition_penalty: 1.2 }),
  cut: given({ truncate_prompt_tokens: 4 }),
  turns: {
    ...{ reasoning: 'low', maxOutputTokens: 50, tools: { look }, stopWhen: stepCountIs(2) },
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' }),
  },
};

const environment = defineEnvironment({
  name: 'own prompts',
  scenario: z.object({ call: z.string() }),
  rollout: async ({ scenario: { call }, model }) => {
    const messages = [
      { role: 'user', content: 'what is it' } as const,
      ...(call === 'continued' ? [{ role: 'assistant', content: 'it is ' } as const] : []),
    ];
    await generateText({ maxOutputTokens: 16, ...calls[call], model: model.languageModel, messages });
  },
  rewards: { place: ({ trajectory }) => Number(trajectory.metadata.rollout) },
});
const scenarios = Object.keys(calls).map((call) => ({ call }));

describe('rollouts with their own prompts', () => {
  let service: RealService;

  beforeAll(async () => {
    service = await startRealService();
  });

  afterAll(() => service?.close());

  const open = (name: string) => openModel({ client: service.client, project: 'own', name, baseModel });

  test('train with the probabilities of their sampling', { tags: ['long'] }, async () => {
    const { reports } = await train({
      ...{ environment, scenarios, model: await open('run'), steps: 2 },
      ...{ groupsPerStep: scenarios.length, rolloutsPerGroup: 2 },
      config: {
        ...{ learning_rate: 1e-4, kl_penalty_coef: 0.1, importance_sampling_level: 'sequence' },
        ...{ truncated_importance_sampling: 2, normalize_advantages: true },
      },
      runDirectory: join(service.folder, 'run'),
    });
    for (const report of reports) {
      expect(report).toMatchObject({ failed: 0, completed: 2 * scenarios.length });
      expect(report.groupsWithSignal).toBe(scenarios.length);
      expect(report.logprobDifference).toBeLessThan(1e-4);
    }
    // The policy starts equal to the reference and moves away from it.
    const [first, second] = reports.map(({ klReference }) => klReference);
    expect(first).toBe(0);
    expect(second).not.toBe(0);
    expect(second).toBeTypeOf('number');
  });

  test.each(Object.keys(calls))('train in their own job: %s', async (call) => {
    const model = await open(call);
    const { groups } = await runGroups({ environment, scenarios: [{ call }], rolloutsPerGroup: 2, model });
    const trajectoryGroups = groups.map((group) => group.toTrajectoryGroup());
    for (const { choices } of trajectoryGroups.flatMap(({ trajectories }) => trajectories))
      for (const choice of choices) expect(choice).toMatchObject({ sampling: { own_prompt: true } });
    const { jobId } = await submitTraining({ model, groups: trajectoryGroups });
    const { gradientSteps } = await followJob({ client: service.client, jobId });
    expect(gradientSteps).toEqual([expect.objectContaining({ num_groups_without_signal: 0 })]);
    expect(gradientSteps[0]?.num_trainable_tokens).toBeGreaterThan(0);
    expect(gradientSteps[0]?.logprob_difference_max).toBeLessThan(1e-4);
  });
});
