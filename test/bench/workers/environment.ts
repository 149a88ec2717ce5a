import { generateText } from 'ai';
import { defineEnvironment } from 'martingale';
import { z } from 'zod';

/** An agent of one call, or of several in a row. */
export default defineEnvironment({
  name: 'bench',
  scenario: z.object({ id: z.number(), turns: z.number().default(1) }),
  rollout: async ({ scenario: { turns }, model, signal }) => {
    let length = 0;
    for (let turn = 0; turn < turns; turn++) {
      const prompt = `What is there to say about ${turn}?`;
      const { text } = await generateText({ model: model.languageModel, prompt, abortSignal: signal });
      length += text.length;
    }
    return length;
  },
  rewards: { long: ({ outcome }) => outcome },
});
