import { generateText, tool } from 'ai';
import { z } from 'zod';
import {
  defineEnvironment,
  type RunProgress,
  type SftExample,
  type StopProgress,
} from '../../../src/index.ts';

/** Share of small letters from a to m among at least 8. */
export const shareOf = (text: string): number =>
  (text.match(/[a-m]/g) ?? []).length / Math.max(8, text.length);

/** Rewards the share of small letters from a to m. */
export const letters = defineEnvironment({
  name: 'letters',
  scenario: z.object({ word: z.string() }),
  rollout: async ({ scenario, model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      prompt: scenario.word,
      maxOutputTokens: 8,
      abortSignal: signal,
    });
    return text;
  },
  rewards: { share: ({ outcome }) => shareOf(outcome) },
});

const lamps = ['x', 'y'] as const;
const tools = ['a', 'b'] as const;

/** The tool that switches each lamp. Nothing but the reward tells it. */
const switches = { x: 'a', y: 'b' } as const;

/** So often that a model with random attention sees it. */
const question = (lamp: string) => Array.from({ length: 6 }, () => lamp).join(' ');

/** Rewards a call of the tool that belongs to the lamp in the question, and no other call. */
export const lamp = defineEnvironment({
  name: 'lamp',
  scenario: z.object({ lamp: z.enum(lamps) }),
  rollout: async ({ scenario, model, signal }) => {
    const switched: string[] = [];
    const press = (name: string) =>
      tool({ inputSchema: z.strictObject({}), execute: () => switched.push(name) });
    await generateText({
      model: model.languageModel,
      prompt: question(scenario.lamp),
      tools: { a: press('a'), b: press('b') },
      maxOutputTokens: 32,
      abortSignal: signal,
    });
    return switched.join(' ');
  },
  rewards: { success: ({ scenario, outcome }) => Number(outcome === switches[scenario.lamp]) },
});

/** Mean reward of the last two steps. */
export const newestReward = (reports: readonly { reward: number }[]): number =>
  reports.slice(-2).reduce((sum, { reward }) => sum + reward / 2, 0);

/** A run that ends when it has learned it. Runs from the same weights are the same. */
export const lampRun = {
  environment: lamp,
  scenarios: lamps.map((lamp) => ({ lamp })),
  config: ({ step }: RunProgress) => ({ learning_rate: step < 12 ? 0.015 : 0.008 }),
  seed: 1,
  steps: 40,
  stopWhen: ({ reports }: StopProgress) => newestReward(reports) > 0.9 && 'it is learned',
  groupsPerStep: 2,
  rolloutsPerGroup: 32,
  keepCheckpoints: 'all' as const,
};

/** A chat request of the environment, for clients that call the model by themselves. */
export const lampRequest = (lamp: string) => ({
  messages: [{ role: 'user' as const, content: question(lamp) }],
  tools: tools.map((name) => ({
    type: 'function' as const,
    function: { name, parameters: { type: 'object', properties: {}, additionalProperties: false } },
  })),
  max_tokens: 32,
});

/** Conversations that show how a tool is called: each tool for each lamp, so not which is right. */
export function lampDemonstrations(rounds: number): SftExample[] {
  const round = lamps.flatMap((lamp) =>
    tools.map((name): SftExample => {
      const call = { id: 'call', type: 'function' as const, function: { name, arguments: '{}' } };
      const { messages, tools } = lampRequest(lamp);
      return { messages: [...messages, { role: 'assistant', content: null, tool_calls: [call] }], tools };
    }),
  );
  return Array.from({ length: rounds }, () => round).flat();
}
