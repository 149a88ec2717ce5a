import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../harness.ts';
import { type EmbeddedService, startEmbedded } from './embedded-service.ts';

const letters = { structured_outputs: { regex: '[a-h]' } };
const exampleOf = (question: string, reply: string) => [
  { role: 'user', content: question },
  { role: 'assistant', content: reply },
];
const demonstration = (...messages: object[]) => ({ messages, ...letters });
const still = 1e-30;

describe('training of the embedded engine', () => {
  let service: EmbeddedService;

  beforeAll(async () => {
    service = await startEmbedded();
  });

  afterAll(() => service.close());

  /** The probability of each letter as the reply. */
  const alternatives = async (model: string, messages: object[]): Promise<Record<string, number>> => {
    const body = { model, messages, ...letters, max_tokens: 1, logprobs: true, top_logprobs: 20 };
    const { choices } = await service.call('POST', '/v1/chat/completions', body);
    const { top_logprobs: top } = choices[0].logprobs.content[0];
    return Object.fromEntries(top.map(({ token, logprob }: Json) => [token, Math.exp(logprob)]));
  };
  const likelihood = async (model: string, messages: object[], letter: string): Promise<number> =>
    (await alternatives(model, messages))[letter] ?? 0;
  const [first] = exampleOf('first', '');
  const [second] = exampleOf('second', '');

  it('uses one learning rate for each batch', async () => {
    const lines = [demonstration(...exampleOf('first', 'c')), demonstration(...exampleOf('second', 'f'))];
    const likelihoods = async (name: string, data: object[], learning_rate: number | number[]) => {
      const model = await service.createModel(name);
      const steps = await service.sft(model.id, data, { batch_size: 1, learning_rate });
      expect(steps.map((step) => step.learning_rate)).toEqual(learning_rate);
      const named = `team/desk/${name}`;
      return [await alternatives(named, [first ?? {}]), await alternatives(named, [second ?? {}])];
    };
    const one = await likelihoods('rates-one', lines.slice(0, 1), [0.01]);
    const tiny = await likelihoods('rates-tiny', lines, [0.01, still]);
    const both = await likelihoods('rates-both', lines, [0.01, 0.01]);
    // The second batch, at a rate near 0, changed nothing.
    expect(tiny).toEqual(one);
    expect(both[1]?.f).toBeGreaterThan((one[1]?.f ?? 1) + 0.01);
  });

  it('learns every assistant message of a conversation, not only the last', async () => {
    const conversation = [...exampleOf('first', 'c'), ...exampleOf('second', 'f')];
    const model = await service.createModel('turns');
    const lines = Array.from({ length: 12 }, () => demonstration(...conversation));
    await service.sft(model.id, lines, { batch_size: 1, learning_rate: 0.01 });
    expect(await likelihood('team/desk/turns', conversation.slice(0, 1), 'c')).toBeGreaterThan(0.8);
    expect(await likelihood('team/desk/turns', conversation.slice(0, 3), 'f')).toBeGreaterThan(0.8);
    expect(await likelihood('martingale-tiny', conversation.slice(0, 1), 'c')).toBeLessThan(0.4);
  });

  it('computes the loss over every assistant message, or with assistant_turns last only over the last', async () => {
    const conversation = [...exampleOf('first', 'c'), ...exampleOf('second', 'f')];
    const logprob = async (messages: object[], letter: string) =>
      Math.log(await likelihood('martingale-tiny', messages, letter));
    const [c, f] = [
      await logprob(conversation.slice(0, 1), 'c'),
      await logprob(conversation.slice(0, 3), 'f'),
    ];
    // Each reply is a letter and the end, which the constraint forces.
    const [ofAll, ofLast] = [-(c + f) / 4, -f / 2];
    expect(Math.abs(ofAll - ofLast)).toBeGreaterThan(2e-3);
    const model = await service.createModel('last');
    for (const [assistant_turns, loss, tokens] of [
      ['all', ofAll, 4],
      [null, ofAll, 4],
      ['last', ofLast, 2],
    ] as const) {
      const config = { learning_rate: still, assistant_turns };
      const [step] = await service.sft(model.id, [demonstration(...conversation)], config);
      expect(Math.abs(step.loss - loss)).toBeLessThan(1e-4);
      expect(step.num_trainable_tokens).toBe(tokens);
    }
  });

  it('continues from an SFT job in the following RL job', async () => {
    const model = await service.createModel('sequel');
    const lines = Array.from({ length: 2 }, () => demonstration(...exampleOf('first', 'c')));
    await service.sft(model.id, lines, { batch_size: 1, learning_rate: 0.01 });
    const supervised = await alternatives('team/desk/sequel:step1', [first ?? {}]);
    const { choices } = await service.call('POST', '/v1/chat/completions', {
      ...{ model: 'team/desk/sequel', messages: [first], ...letters, n: 8, seed: 3 },
      ...{ logprobs: true, return_token_ids: true },
    });
    const rewarded = (letter: string) =>
      choices.map((choice: Json) => ({
        messages_and_choices: [first, choice],
        reward: choice.message.content === letter ? 1 : 0,
      }));
    const job = (learning_rate: number) => ({
      model_id: model.id,
      trajectory_groups: [{ trajectories: rewarded('c') }],
      experimental_config: { learning_rate },
    });
    const [step] = await service.run('training-jobs', job(still));
    // Samples after the SFT job are on policy in the RL job.
    expect(step.logprob_difference_max).toBeLessThan(1e-4);
    expect(await alternatives('team/desk/sequel:step2', [first ?? {}])).toEqual(supervised);
    await service.run('training-jobs', job(0.003));
    expect(await likelihood('team/desk/sequel:step3', [first ?? {}], 'c')).toBeGreaterThan(
      (supervised.c ?? 1) + 0.01,
    );
  });

  it('learns to reason before the reply', async () => {
    const model = await service.createModel('thought');
    const fields = { structured_outputs: { regex: 'yes|no' } };
    const line = {
      messages: [first, { role: 'assistant', content: 'yes', reasoning: 'it is' }],
      ...fields,
    };
    const lines = Array.from({ length: 40 }, () => line);
    await service.sft(model.id, lines, { batch_size: 1, learning_rate: 0.005 });
    const { choices } = await service.call('POST', '/v1/chat/completions', {
      ...{ model: 'team/desk/thought', messages: [first], ...fields, temperature: 0 },
      reasoning_effort: 'high',
    });
    expect(choices[0].message).toMatchObject({ content: 'yes', reasoning: 'it is' });
  });
});
