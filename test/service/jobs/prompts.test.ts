import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../harness.ts';
import { type EmbeddedService, startEmbedded } from './embedded-service.ts';

const question = { role: 'user', content: 'what is it' };
const further = { role: 'user', content: 'and him' };
const tool = { type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } };

describe('a choice trains on its own prompt', () => {
  let service: EmbeddedService;
  let model: Json;

  beforeAll(async () => {
    service = await startEmbedded();
    model = await service.createModel('prompts');
  });

  afterAll(() => service.close());

  const ask = async (messages: Json[], fields: object = {}): Promise<Json> => {
    const { choices } = await service.call('POST', '/v1/chat/completions', {
      ...{
        model: 'martingale-tiny',
        messages,
        max_tokens: 20,
        seed: 1,
        logprobs: true,
        return_token_ids: true,
      },
      ...fields,
    });
    return choices[0];
  };

  /** Trains on two trajectories with different rewards and returns the figures of the step. */
  const train = async (
    ...trajectories: { messages_and_choices: Json[]; tools?: Json[] }[]
  ): Promise<Json> => {
    const rewarded = trajectories.map((trajectory, reward) => ({ ...trajectory, reward }));
    const [data] = await service.run('training-jobs', {
      model_id: model.id,
      trajectory_groups: [{ trajectories: rewarded }],
      experimental_config: { learning_rate: 1e-30 },
    });
    return data;
  };

  /** Two turns; the first reply is sent back in this form. */
  const converse = async (seed: number, goesBackAs: (choice: Json) => Json): Promise<Json[]> => {
    const first = await ask([question], { seed });
    const second = await ask([question, goesBackAs(first), further], { seed });
    return [question, first, further, second];
  };

  test('if the earlier reply was sent back as text', async () => {
    const conversations = [1, 2, 3].map((seed) => converse(seed, (choice) => choice.message));
    const data = await train(
      ...(await Promise.all(conversations)).map((messages_and_choices) => ({ messages_and_choices })),
    );
    expect(data.num_decisions).toBeGreaterThan(60);
    expect(data.logprob_difference_max).toBeLessThan(1e-4);
    // The first replies were sampled as other tokens than their texts give: the second ones are separate.
    expect(data.num_datums).toBeGreaterThan(3);
  });

  test('in one sequence with the earlier reply if that was sent back with its ids', async () => {
    const withIds = (choice: Json) => ({ ...choice.message, token_ids: choice.token_ids });
    const conversations = [1, 2].map((seed) => converse(seed, withIds));
    const data = await train(
      ...(await Promise.all(conversations)).map((messages_and_choices) => ({ messages_and_choices })),
    );
    expect(data.num_datums).toBe(2);
    expect(data.logprob_difference_max).toBeLessThan(1e-4);
  });

  test('in one sequence if the earlier reply was not sampled', async () => {
    const shown = [question, { role: 'assistant', content: 'it is a cat' }, further];
    const one = await ask(shown, { seed: 1 });
    const other = await ask(shown, { seed: 2 });
    expect(one.sampling.own_prompt).toBeUndefined();
    const data = await train(
      { messages_and_choices: [...shown, one] },
      { messages_and_choices: [...shown, other] },
    );
    expect(data.num_datums).toBe(2);
    expect(data.logprob_difference_max).toBeLessThan(1e-4);
  });

  test.each([
    ['without the tools it was sampled with', { tools: [tool] }, [question], undefined],
    ['after other messages', {}, [further], undefined],
    ['with tools that it was sampled without', {}, [question], [tool]],
  ])('%s it fails the job, by path, if it has lost its prompt', async (_name, fields, messages, tools) => {
    const { prompt_token_ids: _prompt, ...choice } = await ask([question], fields);
    const choicePath = 'trajectory_groups.0.trajectories.0.messages_and_choices.1';
    const given = tools ? { tools } : {};
    await expect(train({ messages_and_choices: [...messages, choice], ...given })).rejects.toThrow(
      new RegExp(`${choicePath.replaceAll('.', '\\.')}.*was not sampled after`),
    );
  });
});
