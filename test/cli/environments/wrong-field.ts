import { generateText, tool } from 'ai';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

/** Its agent calls a tool. The reward reads the wrong field of the scenario, `success` the right one. */
export default defineEnvironment({
  name: 'wrong field',
  scenario: z.object({ light: z.string(), last: z.string(), wanted: z.string() }),
  rollout: async ({ scenario, model, signal }) => {
    const { toolCalls } = await generateText({
      model: model.languageModel,
      prompt: `the light is ${scenario.light}`,
      tools: { act: tool({ inputSchema: z.object({ word: z.enum(['stop', 'go']) }) }) },
      toolChoice: 'required',
      abortSignal: signal,
    });
    const [call] = toolCalls;
    return call && !call.dynamic ? call.input.word : 'nothing';
  },
  rewards: {
    word: ({ scenario, outcome }) => Number(outcome === scenario.last),
    success: { weight: 0, reward: ({ scenario, outcome }) => Number(outcome === scenario.wanted) },
  },
});

export const scenarios = [
  { light: 'red', last: 'go', wanted: 'stop' },
  { light: 'green', last: 'stop', wanted: 'go' },
];
