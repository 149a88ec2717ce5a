import { generateText } from 'ai';
import { defineEnvironment, type RunListener, train } from 'martingale';
import { z } from 'zod';
import { type FakeServiceOptions, startFakeService } from '../model/fake-service.ts';

/** A number in [0, 1) that looks random and depends on the text alone (FNV-1a). */
function chance(text: string): number {
  let hash = 0x811c9dc5;
  for (const character of text) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  return (Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 0) / 2 ** 32;
}

const words = ['Your', 'order', 'left', 'our', 'warehouse', 'and', 'arrives', 'on', 'Monday', 'by', 'noon'];

const environmentOf = (brevityWeight: number) =>
  defineEnvironment({
    name: 'ticket desk',
    scenario: z.object({ id: z.string(), question: z.string() }),
    rollout: async ({ scenario: { question, id }, model, seed }) => {
      const { text } = await generateText({
        model: model.languageModel,
        system: 'You answer customers. Be short.',
        prompt: `${question} [${id}:${seed}]`,
      });
      if (chance(`failure ${id} ${seed}`) < 0.04) throw new Error(`Ticket store: table "${id}" is locked`);
      if (chance(`other ${id} ${seed}`) < 0.02)
        throw new TypeError('Cannot read properties of undefined (reading "date")');
      return text;
    },
    rewards: {
      success: ({ outcome }) => Number(outcome.includes('Monday')),
      brevity: { weight: brevityWeight, reward: ({ outcome }) => (outcome.length < 40 ? 0.25 : 0) },
    },
  });

export interface MadeRun {
  runDirectory: string;
  steps?: number;
  groupsPerStep?: number;
  rolloutsPerGroup?: number;
  learningRate?: number;
  /** Weight of the reward `brevity`. Default 1. */
  brevityWeight?: number;
  /** How fast the policy gets better, in success per step. */
  pace?: number;
  /** What the policy says instead. */
  reply?: string;
  onEvent?: RunListener;
  signal?: AbortSignal;
}

/** Makes the folder of a run with the harness itself: over HTTP, with a policy that answers more questions at each step. */
export async function makeRun(options: MadeRun): Promise<void> {
  const {
    runDirectory,
    reply,
    steps = 12,
    groupsPerStep = 6,
    rolloutsPerGroup = 6,
    pace = 0.06,
    learningRate = 1e-4,
    brevityWeight = 1,
  } = options;
  let jobs = 0;
  const policy: FakeServiceOptions['policy'] = ({ model, messages }) => {
    const step = Number(/:step(\d+)$/.exec(model ?? '')?.[1] ?? 0);
    const prompt = JSON.stringify(messages);
    const knows = chance(`${prompt} ${step}`) < Math.min(0.95, 0.15 + step * pace);
    const length = 4 + Math.floor(chance(`length ${prompt} ${step}`) * (knows ? 8 : 6));
    if (reply !== undefined) return { text: reply };
    return { text: words.slice(0, knows ? Math.max(9, length) : Math.min(8, length)).join(' ') };
  };
  await using service = await startFakeService({
    policy,
    get gradientSteps() {
      const at = jobs++;
      const noise = (name: string) => chance(`${name} ${at}`);
      return [
        {
          loss: 0.4 * 0.95 ** at + 0.05 * noise('loss'),
          entropy: 1.6 * 0.93 ** at + 0.1 * noise('entropy'),
          grad_norm: 0.5 + noise('norm'),
          kl_div: 1e-5 + 1e-5 * noise('kl'),
          clipped_fraction: 0.01 + 0.02 * noise('clipped'),
          logprob_difference_max: 2e-5 + 2e-5 * noise('difference'),
        },
      ];
    },
  });
  const questions = Array.from({ length: 24 }, (_, index) => ({
    id: `ticket-${index + 1}`,
    question: `Where is order ${1000 + index * 37}?`,
  }));
  await train({
    environment: environmentOf(brevityWeight),
    scenarios: questions,
    client: service.client,
    model: { project: 'shop', name: 'desk', baseModel: 'martingale-tiny' },
    steps,
    groupsPerStep,
    rolloutsPerGroup,
    runDirectory,
    config: { learning_rate: learningRate },
    prices: { promptTokensPerMillion: 400, sampledTokensPerMillion: 1600 },
    ...(reply === undefined
      ? { validation: { scenarios: questions.slice(0, 12), everySteps: 4, rolloutsPerScenario: 2 } }
      : {}),
    progress: false,
    ...(options.onEvent ? { onEvent: options.onEvent } : {}),
    ...(options.signal ? { signal: options.signal } : {}),
  });
}
