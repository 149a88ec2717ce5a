import { generateText } from 'ai';
import { defineEnvironment, type OptimizeOptions, type ReflectFunction } from 'martingale';
import { scriptedModel } from 'martingale/testing';
import { z } from 'zod';

/** A model that knows the code of a word only if a text tells it: `apple=7`. */
export const codes = defineEnvironment({
  name: 'codes',
  scenario: z.object({ word: z.string(), code: z.number() }),
  texts: { system: 'Answer with the code.', hint: 'Think.' },
  rollout: async ({ scenario, texts, model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      instructions: `${texts.system}\n${texts.hint}`,
      prompt: scenario.word,
      abortSignal: signal,
      maxRetries: 0,
    });
    return text;
  },
  rewards: {
    success: ({ scenario, outcome, trajectory }) => {
      if (outcome === String(scenario.code)) return 1;
      trajectory.logs.push(`the code of ${scenario.word} is ${scenario.code}`);
      return 0;
    },
  },
});

const words = ['apple', 'pear', 'plum', 'fig'];
const scenarioOf = (at: number) => ({ word: words[at % words.length] ?? '', code: (at % words.length) + 5 });

export const scenarios = Array.from({ length: 8 }, (_, at) => scenarioOf(at));
export const validation = words.map((_, at) => scenarioOf(at));

/** The model, and how often it was called. `before` is called before each answer. */
export function knowingModel(before: (calls: number) => void = () => undefined) {
  const asked = { calls: 0 };
  const model = scriptedModel(({ messages }) => {
    before(++asked.calls);
    const [system, user] = messages.map(({ content }) => String(content));
    return new RegExp(`${user}=(\\d+)`).exec(system ?? '')?.[1] ?? 'unknown';
  });
  return { model, asked };
}

/** Adds the code of the first word that went wrong. */
export const addCode: ReflectFunction = ({ text, examples }) => {
  const note = examples.flatMap(({ notes }) => notes)[0];
  const [, word, code] = /code of (\w+) is (\d+)/.exec(note ?? '') ?? [];
  return word ? `${text} ${word}=${code}` : null;
};

export type CodesOptions = Partial<OptimizeOptions<typeof codes.scenario, string, typeof codes.texts>>;
