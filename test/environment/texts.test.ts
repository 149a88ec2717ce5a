import { join } from 'node:path';
import { generateText, tool } from 'ai';
import { defineEnvironment, type Environment, evaluate, runGroups, train, workerThreads } from 'martingale';
import { scriptedModel } from 'martingale/testing';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { z } from 'zod';
import { sharedFolder } from '../support/files.ts';
import { openPolicy, outcomeOf, runOnce } from './run-once.ts';
import toldEnvironment from './told.ts';

const rewards = { zero: () => 0 };
const scenario = z.object({});
const folder = sharedFolder();

const told = defineEnvironment({
  name: 'told',
  scenario,
  texts: { system: 'Be short.', hint: 'Look.' },
  setup: ({ texts }) => texts.hint.length,
  rollout: async ({ texts, state, model }) => {
    expectTypeOf(texts).toEqualTypeOf<{ system: string; hint: string }>();
    const { text } = await generateText({
      model: model.languageModel,
      instructions: texts.system,
      prompt: texts.hint,
    });
    return `${state} ${text}`;
  },
  rewards,
});

const echo: Parameters<typeof openPolicy>[0] = ({ messages }) => ({
  text: messages.map(({ content }) => content).join('|'),
});

describe('an agent gets the texts of its environment', () => {
  test('in a function, with its set-up, and others by `withTexts`', async () => {
    expect(outcomeOf(await runOnce(told, {}, echo))).toBe('5 Be short.|Look.');
    const other = told.withTexts({ hint: 'Go now.' });
    expectTypeOf(other).toEqualTypeOf<typeof told>();
    expect(outcomeOf(await runOnce(other, {}, echo))).toBe('7 Be short.|Go now.');
    expect([told.texts, other.texts]).toEqual([
      { system: 'Be short.', hint: 'Look.' },
      { system: 'Be short.', hint: 'Go now.' },
    ]);
    expect(other.definition).toEqual(told.definition);
  });

  test('in pieces: instructions, prompt and descriptions of tools', async () => {
    const pieces = defineEnvironment({
      name: 'pieces',
      scenario,
      texts: { system: 'Use the tool.', look: 'Looks around.' },
      system: ({ texts }) => texts.system,
      prompt: ({ texts }) => `Its words: ${texts.look}`,
      tools: ({ texts }) => ({
        look: tool({ description: texts.look, inputSchema: z.object({}), execute: () => 'a tree' }),
      }),
      rewards,
    }).withTexts({ look: 'Opens your eyes.' });
    await using service = await openPolicy(echo);
    const { groups } = await runGroups({
      environment: pieces,
      scenarios: [{}],
      rolloutsPerGroup: 1,
      model: service.model,
    });
    expect(groups[0]?.rollouts[0]?.trajectory.choices[0]?.message.content).toBe(
      'Use the tool.|Its words: Opens your eyes.',
    );
    expect(service.requests[0]?.tools).toMatchObject([{ function: { description: 'Opens your eyes.' } }]);
  });

  test('in seats', async () => {
    const seats = defineEnvironment({
      name: 'seats',
      scenario,
      texts: { rule: 'Play fair.' },
      seats: ['white'],
      rollout: async ({ texts, seats: { white } }) => {
        await generateText({ model: white.model.languageModel, prompt: 'go' });
        return texts.rule;
      },
      rewards,
    });
    expect(outcomeOf(await runOnce(seats, {}, echo))).toBe('Play fair.');
    expect(outcomeOf(await runOnce(seats.withTexts({ rule: 'Win.' }), {}, echo))).toBe('Win.');
  });

  test('in worker threads, the ones that were asked for', async () => {
    await using service = await openPolicy(echo);
    const executor = workerThreads({ environment: new URL('told.ts', import.meta.url), threads: 1 });
    const said = async (environment: Environment<typeof scenario, string>) => {
      const { groups } = await runGroups({
        environment,
        scenarios: [{}],
        rolloutsPerGroup: 1,
        model: service.model,
        executor,
      });
      const [rollout] = groups[0]?.rollouts ?? [];
      return rollout?.status === 'completed' ? rollout.outcome : rollout?.failure.message;
    };
    try {
      expect(await said(toldEnvironment)).toBe('Be short.');
      expect(await said(toldEnvironment.withTexts({ system: 'Be long.' }))).toBe('Be long.');
      // Another version of the module, with a text that the worker's does not have.
      expect(await said(told)).toContain('it has no text "hint", but system');
    } finally {
      await executor.close();
    }
  });
});

test('an environment without texts gives none', async () => {
  const bare = defineEnvironment({
    name: 'bare',
    scenario,
    rollout: async ({ texts, model }) => {
      await generateText({ model: model.languageModel, prompt: 'go' });
      return Object.keys(texts).length;
    },
    rewards,
  });
  expect(outcomeOf(await runOnce(bare, {}, echo))).toBe(0);
  expectTypeOf(told).toExtend<Environment<typeof scenario, string>>();
  expect(() => bare.withTexts({ system: 'a' })).toThrow('it has no text "system". Name it in');
});

test('unknown names and values that are no texts are refused', () => {
  const wrong: Record<string, unknown> = { texts: { system: 3 } };
  const options = { name: 'wrong', scenario, rollout: async () => '', rewards };
  expect(() => defineEnvironment({ ...options, ...wrong })).toThrow('the text "system" is 3. Give a string.');
  expect(() => defineEnvironment({ ...options, ...{ texts: 'a' as never } })).toThrow('`texts` is "a"');
  // @ts-expect-error: it has no such text.
  expect(() => told.withTexts({ sytem: 'a' })).toThrow('it has no text "sytem", but system, hint');
});

test('an evaluation and a run do not go on with other texts', async () => {
  const model = scriptedModel(() => 'yes');
  const settings = {
    scenarios: [{}],
    model,
    directory: join(folder, 'evaluation'),
    progress: false,
  } as const;
  await evaluate({ ...settings, environment: told });
  await expect(
    evaluate({ ...settings, environment: told.withTexts({ hint: 'Other.' }) }),
  ).rejects.toMatchObject({
    code: 'evaluation_directory_refused',
    message: expect.stringContaining('`texts` was {"system":"Be short.","hint":"Look."} and is'),
  });
  await using service = await openPolicy(echo);
  const run = {
    scenarios: [{}],
    client: service.client,
    model: { project: 'p', name: 'n', baseModel: 'b' },
    steps: 1,
    groupsPerStep: 1,
    rolloutsPerGroup: 2,
    runDirectory: join(folder, 'run'),
    progress: false,
  } as const;
  await train({ ...run, environment: told });
  await expect(
    train({ ...run, environment: told.withTexts({ hint: 'Other.' }), resume: true }),
  ).rejects.toMatchObject({ code: 'resume_refused', message: expect.stringContaining('`texts` was') });
});
