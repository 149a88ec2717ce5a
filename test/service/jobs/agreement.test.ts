import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testedModels } from '../../support/base-models.ts';
import type { Json } from '../harness.ts';
import { type EmbeddedService, startEmbedded } from './embedded-service.ts';

const question = { role: 'user', content: 'what is it' };
const tool = {
  type: 'function',
  function: { name: 'look', parameters: { type: 'object', properties: { at: { enum: ['it', 'him'] } } } },
};
const other = { type: 'function', function: { ...tool.function, name: 'other' } };
const called = (name: string) => ({ type: 'function', function: { name } });

/** Fields of a chat request that change which distribution its choices are sampled from. */
const requests: object[] = [
  {},
  { temperature: 0.6 },
  { top_k: 5 },
  { top_p: 0.7 },
  { min_p: 0.02 },
  { repetition_penalty: 1.4 },
  { frequency_penalty: 0.8, presence_penalty: -0.5 },
  { logit_bias: { 101: 5, 110: -3 } },
  { allowed_token_ids: [97, 98, 99, 100, 101] },
  { bad_words: ['a', 'th'] },
  { min_tokens: 6 },
  { ignore_eos: true, max_tokens: 8 },
  { structured_outputs: { regex: '[a-z]{3,9}' } },
  { tools: [tool] },
  { tools: [tool], tool_choice: 'required', parallel_tool_calls: false },
  {
    ...{ tools: [tool, other], max_tokens: 40 },
    tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [called('other')] } },
  },
  {
    ...{ tools: [tool, other], max_tokens: 40 },
    tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [called('look')] } },
  },
  { tools: [tool], function_call: 'none' },
  { reasoning_effort: 'none' },
  { reasoning_effort: 'minimal', max_tokens: 40 },
  { reasoning_effort: 'low', max_tokens: 40 },
  { reasoning_effort: 'low', structured_outputs: { choice: ['yes', 'no'] }, temperature: 0.8 },
  { documents: [{ title: 'a', text: 'something' }] },
  { add_special_tokens: true },
  { truncate_prompt_tokens: 5 },
  { chat_template: '{% for message in messages %}{{ message.content }} : {% endfor %}' },
  { add_generation_prompt: false },
  {
    messages: [question, { role: 'assistant', content: 'it is ' }],
    ...{ continue_final_message: true, add_generation_prompt: false },
  },
];

describe.each(testedModels)(
  'training of $baseModel computes the log-probabilities that sampling reported',
  (tested) => {
    let service: EmbeddedService;
    let model: Json;

    beforeAll(async () => {
      service = await startEmbedded(tested);
      model = await service.createModel('same');
    });

    afterAll(() => service.close());

    it.each(requests.map((request) => [request]))('of choices asked for with %j', async (request) => {
      // The rounding of a logit may put a token on either side of a cut, which is rare enough not to happen twice.
      const isCut = ['top_k', 'top_p', 'min_p'].some((name) => name in request);
      const differences: number[] = [];
      for (const seed of isCut ? [1, 2] : [1]) differences.push(await differenceOf({ seed, ...request }));
      expect(Math.min(...differences)).toBeLessThan(1e-4);
    });

    async function differenceOf(request: Json): Promise<number> {
      const body = {
        ...{ model: tested.baseModel, messages: [question], max_tokens: 24, n: 3 },
        ...{ logprobs: true, return_token_ids: true },
        ...request,
      };
      const { choices } = await service.call('POST', '/v1/chat/completions', body);
      const messages = 'messages' in request ? request.messages : [question];
      const [data] = await service.run('training-jobs', {
        model_id: model.id,
        trajectory_groups: [
          {
            trajectories: choices.map((choice: Json, reward: number) => ({
              messages_and_choices: [...(Array.isArray(messages) ? messages : []), choice],
              ...('tools' in request ? { tools: request.tools } : {}),
              reward,
            })),
          },
        ],
        experimental_config: { learning_rate: 1e-30 },
      });
      expect(data.num_decisions).toBeGreaterThan(0);
      return data.logprob_difference_max;
    }
  },
);
