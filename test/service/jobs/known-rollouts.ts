import type { ReferenceToken, ReferenceTrajectory } from '../../learning/reference-objective.ts';
import type { Json } from '../harness.ts';
import type { EmbeddedService } from './embedded-service.ts';

/** One sampled letter: its known figures, and its choice as the client sends it. */
interface Letter {
  /** Log-probabilities: of the sampling model, of the base model, and as the client sends it. */
  token: ReferenceToken;
  choice: Json;
}

export interface KnownRollouts {
  /** The groups as a training job receives them. */
  groups: Json[];
  /** The same groups as the reference receives them. */
  known: ReferenceTrajectory[][];
}

/** Errors of the client's log-probabilities, in order; null: it sends none. */
const drifts = [0.3, -0.6, 0, 1.7, null, -0.1, 0.9, 0.05, -1.4, 0.5, null, 0.2, -0.3];

interface Plan {
  reward: number;
  /** Letters in each history. */
  histories: number[];
  temperature: number;
}

const plan: Plan[][] = [
  [
    { reward: 1, histories: [3], temperature: 1 },
    { reward: 0, histories: [2, 2], temperature: 1 },
    { reward: 0.25, histories: [1], temperature: 0.7 },
  ],
  [
    { reward: 5, histories: [2], temperature: 1 },
    { reward: 2, histories: [3], temperature: 1.3 },
  ],
  // No signal.
  [
    { reward: 1, histories: [1], temperature: 1 },
    { reward: 1, histories: [1], temperature: 1 },
  ],
];

/**
 * Samples conversations in which the model answers with one letter of eight at a time. Its alternatives are all
 * reported, so the log-probability of a letter is known under any weights.
 */
export async function sampleRollouts(
  service: EmbeddedService,
  models: { policy: string; base: string },
): Promise<KnownRollouts> {
  let count = 0;
  const ask = (model: string, messages: Json[], temperature: number) =>
    service.call('POST', '/v1/chat/completions', {
      ...{ model, messages, temperature, seed: count },
      ...{ structured_outputs: { regex: '[a-h]' }, max_tokens: 1 },
      ...{ logprobs: true, top_logprobs: 20, return_token_ids: true },
    });
  const letter = async (messages: Json[], temperature: number): Promise<Letter> => {
    const [choice] = (await ask(models.policy, messages, temperature)).choices;
    const [other] = (await ask(models.base, messages, temperature)).choices;
    const [{ token, logprob: current, top_logprobs: all }] = choice.logprobs.content;
    const under = other.logprobs.content[0].top_logprobs.find((one: Json) => one.token === token);
    const drift = drifts[count++ % drifts.length] as number | null;
    // No token has a probability above 1.
    const sampled = drift === null ? null : Math.min(current - drift, -0.01);
    const entropy = -all.reduce((sum: number, { logprob }: Json) => sum + Math.exp(logprob) * logprob, 0);
    const logprobs =
      sampled === null ? null : { content: [{ ...choice.logprobs.content[0], logprob: sampled }] };
    return {
      token: { sampled, current, reference: under.logprob, entropy },
      choice: { ...choice, logprobs },
    };
  };
  const history = async (letters: number, temperature: number) => {
    const messages: Json[] = [];
    const sent: Json[] = [];
    const tokens: ReferenceToken[] = [];
    for (let index = 0; index < letters; index++) {
      const question = { role: 'user', content: `question ${index} of ${letters} at ${temperature}` };
      messages.push(question);
      const { token, choice } = await letter(messages, temperature);
      messages.push({ ...choice.message, token_ids: choice.token_ids });
      sent.push(question, choice);
      tokens.push(token);
    }
    return { sent, tokens };
  };
  const groups: Json[] = [];
  const known: ReferenceTrajectory[][] = [];
  for (const group of plan) {
    const trajectories: Json[] = [];
    const references: ReferenceTrajectory[] = [];
    for (const { reward, histories, temperature } of group) {
      const reported = [];
      for (const letters of histories) reported.push(await history(letters, temperature));
      const [main, ...others] = reported.map(({ sent }) => ({ messages_and_choices: sent }));
      trajectories.push({ ...main, reward, ...(others.length > 0 ? { additional_histories: others } : {}) });
      references.push({ reward, histories: reported.map(({ tokens }) => tokens) });
    }
    groups.push({ trajectories });
    known.push(references);
  }
  return { groups, known };
}
