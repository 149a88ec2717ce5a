import { generateText } from 'ai';
import { z } from 'zod';
import { defineEnvironment } from '../../src/index.ts';

/** The environment of worker threads, with one text. */
export default defineEnvironment({
  name: 'told',
  scenario: z.object({}),
  texts: { system: 'Be short.' },
  rollout: async ({ texts, model }) => {
    await generateText({ model: model.languageModel, prompt: texts.system });
    return texts.system;
  },
  rewards: { zero: () => 0 },
});
