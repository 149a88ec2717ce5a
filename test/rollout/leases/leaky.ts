import { generateText } from 'ai';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

// As a browser or a pool of connections that nobody closes.
setInterval(() => {}, 1000);

export default defineEnvironment({
  name: 'leaky',
  scenario: z.object({ id: z.number() }),
  rollout: async ({ model }) => (await generateText({ model: model.languageModel, prompt: 'hi' })).text,
  rewards: { right: () => 1 },
});
