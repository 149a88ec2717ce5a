/**
 * Improves a prompt by reflection and judges it on scenarios that the search has not seen: `tsx better-prompt.ts [folder]`.
 * Two functions stand in for the models, so it needs no key. With a provider of the AI SDK, pass `externalModel(model)` as
 * `model` and the model itself as `reflect`.
 */
import { generateText } from 'ai';
import { compare, defineEnvironment, describeComparison, evaluate, optimize } from 'martingale';
import { scriptedModel } from 'martingale/testing';
import { z } from 'zod';

const teams: Record<string, string> = {
  refund: 'billing',
  invoice: 'billing',
  parcel: 'delivery',
  courier: 'delivery',
  password: 'accounts',
  login: 'accounts',
};
const topics = Object.keys(teams);

const environment = defineEnvironment({
  name: 'tickets',
  scenario: z.object({ ticket: z.string(), team: z.string() }),
  texts: { system: 'Name the team that answers the ticket.' },
  rollout: async ({ scenario, texts, model, signal }) => {
    const { text } = await generateText({
      model: model.languageModel,
      instructions: texts.system,
      prompt: scenario.ticket,
      abortSignal: signal,
    });
    return text;
  },
  rewards: {
    success: ({ scenario: { ticket, team }, outcome, trajectory }) => {
      if (outcome === team) return 1;
      trajectory.logs.push(`"${ticket}" is for ${team}.`);
      return 0;
    },
  },
});

const ticketsOf = (from: string, count: number) =>
  Array.from({ length: count }, (_, at) => {
    const topic = topics[at % topics.length] ?? '';
    return { ticket: `${from} ${at} asks about a ${topic}`, team: teams[topic] ?? '' };
  });

/** Follows the rules `topic: team` of its instructions, and guesses without one. */
const model = scriptedModel(({ messages }) => {
  const [instructions = '', ticket = ''] = messages.map(({ content }) => String(content));
  const topic = topics.find((one) => ticket.includes(one)) ?? '';
  return new RegExp(`${topic}: (\\w+)`).exec(instructions)?.[1] ?? 'billing';
});

const { texts, spent, runDirectory } = await optimize({
  environment,
  scenarios: ticketsOf('Ada', 18),
  validation: ticketsOf('Grace', 12),
  model,
  // Makes a rule of the first mistake that it sees. A model would read `prompt`.
  reflect: ({ text, examples, prompt }) => {
    const [, topic, team] = /(\w+)" is for (\w+)/.exec(examples.flatMap(({ notes }) => notes)[0] ?? '') ?? [];
    const changed = topic ? `${text}\n${topic}: ${team}` : null;
    return { text: changed, promptTokens: Math.ceil(prompt.length / 4), sampledTokens: 50 };
  },
  iterations: 40,
  budget: { rollouts: 400 },
  prices: { promptTokensPerMillion: 0.1, sampledTokensPerMillion: 0.4 },
  reflectPrices: { promptTokensPerMillion: 2, sampledTokensPerMillion: 8 },
  progress: 'plain',
  ...(process.argv[2] === undefined ? {} : { runDirectory: process.argv[2] }),
});

const heldOut = { scenarios: ticketsOf('Linus', 24), model, progress: false } as const;
const before = await evaluate({ ...heldOut, environment });
const after = await evaluate({ ...heldOut, environment: environment.withTexts(texts) });
console.log(texts.system);
console.log(describeComparison(compare(before, after, { measure: 'success' })));
console.log(`success on held-out tickets ${before.success?.mean} -> ${after.success?.mean}`);
console.log(`${spent.rollouts} rollouts, cost ${spent.cost?.toFixed(4)}, in ${runDirectory}`);
