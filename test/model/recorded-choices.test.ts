import { generateText, jsonSchema, type ModelMessage, Output, streamText, tool } from 'ai';
import { ModelHandle, Trajectory } from 'martingale';
import { runInTrajectory } from 'martingale/loop';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type ChatCompletion,
  type ChatCompletionRequest,
  type Choice,
  chatCompletionRequestSchema,
  chatCompletionSchema,
} from '../../src/contract/index.ts';
import { baseModel, processor, type RealService, startRealService } from './real-service.ts';

type Settings = Omit<Parameters<typeof generateText>[0], 'model' | 'prompt' | 'messages' | 'system'>;

interface Row {
  fields?: Partial<ChatCompletionRequest>;
  settings?: Settings;
  messages?: ModelMessage[];
  /** Checks that the field had an effect. */
  shows?: (choice: Choice, completion: ChatCompletion) => void;
}

const user: ModelMessage = { role: 'user', content: 'what is it' };
const begun: ModelMessage = { role: 'assistant', content: 'it is ' };
const look = {
  look: tool({ inputSchema: jsonSchema({ type: 'object', properties: { at: { enum: ['it', 'him'] } } }) }),
};
const lookAndOther = { ...look, other: look.look };
const letters = { structured_outputs: { regex: '[a-z]{8}' } };
const ab = [97, 98];
const end = 496;
const textOf = ({ message }: Choice) => message.content ?? '';
const samples = (name: string) => (choice: Choice) => expect(choice.sampling).toHaveProperty(name);
const hasOwnPrompt = (choice: Choice, { prompt_token_ids }: ChatCompletion) => {
  expect(choice.sampling?.own_prompt).toBe(true);
  expect(choice.prompt_token_ids).toEqual(prompt_token_ids);
};

/** Each field of the interface that the AI SDK has no setting for. */
const fields: Record<string, Row> = {
  documents: { fields: { documents: [{ title: 'a', text: 'something' }] }, shows: hasOwnPrompt },
  chat_template: {
    fields: { chat_template: '{% for message in messages %}{{ message.content }} {% endfor %}' },
    shows: hasOwnPrompt,
  },
  chat_template_kwargs: {
    fields: { chat_template: '{{ mood }}{{ messages[0].content }}', chat_template_kwargs: { mood: 'calm' } },
    shows: hasOwnPrompt,
  },
  add_generation_prompt: { fields: { add_generation_prompt: false }, shows: hasOwnPrompt },
  continue_final_message: {
    messages: [user, begun],
    fields: { continue_final_message: true },
    shows: hasOwnPrompt,
  },
  add_special_tokens: { fields: { add_special_tokens: true }, shows: hasOwnPrompt },
  truncate_prompt_tokens: { fields: { truncate_prompt_tokens: 4 }, shows: hasOwnPrompt },
  min_p: { fields: { min_p: 0.02 }, shows: ({ sampling }) => expect(sampling?.min_p).toBe(0.02) },
  repetition_penalty: { fields: { repetition_penalty: 1.4 }, shows: samples('repetition_penalty') },
  logit_bias: { fields: { logit_bias: { 101: 5, 110: -3 } }, shows: samples('logit_bias') },
  allowed_token_ids: {
    fields: { allowed_token_ids: ab },
    shows: ({ token_ids }) => expect(ab).toEqual(expect.arrayContaining([...new Set(token_ids)])),
  },
  bad_words: {
    fields: { bad_words: ['a', 'th'] },
    shows: (choice) => expect(textOf(choice)).not.toMatch(/a|th/),
  },
  logits_processors: {
    fields: { logits_processors: [{ qualname: processor, args: [7] }] },
    shows: samples('logits_processors'),
  },
  engine_xargs: {
    fields: { logits_processors: [{ qualname: processor, args: [7] }], engine_xargs: { raise: 3 } },
    shows: samples('engine_xargs'),
  },
  min_tokens: { fields: { min_tokens: 6 }, shows: samples('min_tokens') },
  ignore_eos: { fields: { ignore_eos: true }, shows: samples('ignore_eos') },
  stop_token_ids: {
    fields: { allowed_token_ids: ab, stop_token_ids: ab.slice(1) },
    shows: ({ stop_reason }) => expect(stop_reason).toBe(ab[1]),
  },
  structured_outputs: { fields: letters, shows: (choice) => expect(textOf(choice)).toMatch(/^[a-z]{8}$/) },
  parallel_tool_calls: {
    settings: { tools: look, toolChoice: 'required' },
    fields: { parallel_tool_calls: false },
    shows: ({ message }) => expect(message.tool_calls).toHaveLength(1),
  },
  include_reasoning: {
    settings: { reasoning: 'low', maxOutputTokens: 50 },
    fields: { include_reasoning: false },
    shows: ({ message }) => expect(message).not.toHaveProperty('reasoning'),
  },
  top_logprobs: {
    fields: { top_logprobs: 3 },
    shows: ({ logprobs }) => expect(logprobs?.content?.[0]?.top_logprobs).toHaveLength(3),
  },
  prompt_logprobs: {
    fields: { prompt_logprobs: 1 },
    shows: (_, { prompt_logprobs, prompt_token_ids }) =>
      expect(prompt_logprobs).toHaveLength(prompt_token_ids?.length ?? 0),
  },
  return_tokens_as_token_ids: {
    fields: { return_tokens_as_token_ids: true },
    shows: ({ logprobs }) => expect(logprobs?.content?.[0]?.token).toMatch(/^token_id:\d+$/),
  },
  echo: {
    messages: [user, begun],
    fields: { echo: true },
    shows: (choice) => expect(textOf(choice)).toMatch(/^it is /),
  },
  skip_special_tokens: {
    fields: { skip_special_tokens: false, ignore_eos: true, logit_bias: { [end]: 20, 97: 20 } },
    shows: (choice) => expect(textOf(choice)).toContain('a <|end|>'),
  },
  spaces_between_special_tokens: {
    fields: {
      ...{ skip_special_tokens: false, spaces_between_special_tokens: false },
      ...{ ignore_eos: true, logit_bias: { [end]: 20, 97: 20 } },
    },
    shows: (choice) => expect(textOf(choice)).toMatch(/a<\|end\|>/),
  },
  include_stop_str_in_output: {
    settings: { stopSequences: ['a', 'e', 'i', 'o', 'u', 'n', 't', 's'] },
    fields: { ...letters, include_stop_str_in_output: true },
    shows: (choice) => expect(textOf(choice)).toMatch(/[aeiounts]$/),
  },
  request_id: {
    fields: { request_id: 'mine' },
    shows: (_, { id }) => expect(id).toBe('chatcmpl-mine'),
  },
  service_tier: {
    fields: { service_tier: 'auto' },
    shows: (_, { service_tier }) => expect(service_tier).toBe('default'),
  },
  modalities: { fields: { modalities: ['text'] } },
  user: { fields: { user: 'someone' } },
  safety_identifier: { fields: { safety_identifier: 'a1b2' } },
  prompt_cache_key: { fields: { prompt_cache_key: 'desk' } },
  metadata: { fields: { metadata: { of: 'a test' } } },
  store: { fields: { store: false } },
  priority: { fields: { priority: -1 } },
  cache_salt: { fields: { cache_salt: 'salt' } },
  kv_transfer_params: { fields: { kv_transfer_params: {} } },
  mm_processor_kwargs: { fields: { mm_processor_kwargs: {} } },
};

/** Settings of the AI SDK, alone and together. */
const settings: Record<string, Row> = {
  nothing: {},
  'cut-offs': { settings: { temperature: 0.7, topP: 0.9, topK: 20 } },
  penalties: { settings: { presencePenalty: 0.5, frequencyPenalty: 1.5 } },
  stops: {
    settings: { stopSequences: ['a', 'e', 'i', 'o', 'u', 'n', 't', 's'] },
    fields: letters,
    shows: ({ stop_string }) => expect(stop_string).toMatch(/^[aeiounts]$/),
  },
  reasoning: {
    settings: { reasoning: 'low', maxOutputTokens: 60 },
    shows: ({ message }) => expect(message.reasoning).toMatch(/./),
  },
  'reasoning that has only begun': {
    settings: { reasoning: 'low', maxOutputTokens: 1 },
    shows: ({ message }) => expect(message).toEqual({ role: 'assistant', content: '', refusal: null }),
  },
  'reasoning before a choice': {
    settings: { reasoning: 'medium', maxOutputTokens: 90 },
    fields: { structured_outputs: { choice: ['yes', 'no'] } },
    shows: (choice) => expect(textOf(choice)).toMatch(/^(yes|no)$/),
  },
  'reasoning of the least effort': {
    settings: { reasoning: 'minimal', maxOutputTokens: 50 },
    shows: ({ message }) => expect(message.reasoning).toMatch(/./),
  },
  'no reasoning': {
    settings: { reasoning: 'none' },
    shows: ({ message }) => expect(message).not.toHaveProperty('reasoning'),
  },
  tools: { settings: { tools: look } },
  'a required tool': {
    settings: { tools: look, toolChoice: 'required', maxOutputTokens: 40 },
    shows: ({ message }) => expect(message.tool_calls?.[0]?.function.name).toBe('look'),
  },
  'one of the allowed tools': {
    settings: { tools: lookAndOther, maxOutputTokens: 40 },
    fields: {
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'other' } }] },
      },
    },
    shows: ({ message }) => expect(message.tool_calls?.[0]?.function.name).toBe('other'),
  },
  'a tool after reasoning': {
    settings: {
      tools: look,
      toolChoice: { type: 'tool', toolName: 'look' },
      reasoning: 'low',
      maxOutputTokens: 80,
    },
    shows: ({ message }) => expect(message).toMatchObject({ content: null, tool_calls: [{}] }),
  },
  'structured output': {
    settings: {
      output: Output.object({ schema: jsonSchema({ enum: [{ a: 1 }, { a: 2 }] }) }),
      maxOutputTokens: 40,
    },
    shows: (choice) => expect(textOf(choice)).toMatch(/^\{"a":[12]\}$/),
  },
};

const refused = [
  ...['messages', 'model', 'n', 'stream', 'stream_options', 'logprobs', 'return_token_ids'],
  'return_token_logprobs',
  ...['use_beam_search', 'length_penalty'],
  ...['temperature', 'top_p', 'top_k', 'max_tokens', 'max_completion_tokens', 'stop', 'seed'],
  ...['presence_penalty', 'frequency_penalty', 'reasoning_effort', 'response_format', 'tools', 'tool_choice'],
  'function_call',
];

describe('a call through the AI SDK', () => {
  let service: RealService;

  beforeAll(async () => {
    service = await startRealService();
  });

  afterAll(() => service?.close());

  function options({ fields: martingale = {}, settings: more = {}, messages = [user] }: Row) {
    const model = new ModelHandle({ client: service.client, name: baseModel });
    const providerOptions = { martingale: JSON.parse(JSON.stringify(martingale)) };
    return {
      model: model.languageModel,
      maxOutputTokens: 24,
      ...more,
      messages,
      providerOptions,
      maxRetries: 0,
    };
  }

  /** Removes fields that differ between replies with the same tokens. */
  const withoutIds = (value: unknown) =>
    JSON.parse(JSON.stringify(value).replaceAll(/call_[0-9a-f]{32}|[0-9a-f-]{36}:0/g, 'id'));

  async function plainly(row: Row) {
    const trajectory = new Trajectory({ seed: 7 });
    const result = await runInTrajectory(trajectory, () =>
      generateText({ ...options(row), include: { responseBody: true } }),
    );
    return { trajectory, content: result.content, body: result.response.body };
  }

  async function streamed(row: Row) {
    const trajectory = new Trajectory({ seed: 7 });
    const content = await runInTrajectory(trajectory, async () => {
      const result = streamText({ ...options(row), onError: () => undefined });
      return result.content;
    });
    return { trajectory, content };
  }

  test.each(Object.entries({ ...settings, ...fields }))(
    'is recorded the same plain and streamed with %s',
    async (_, row) => {
      const plain = await plainly(row);
      const [choice] = plain.trajectory.choices;
      if (!choice) throw new RangeError('nothing was recorded');
      row.shows?.(choice, chatCompletionSchema.parse(plain.body));
      const stream = await streamed(row);
      expect(withoutIds(stream.trajectory.histories)).toEqual(withoutIds(plain.trajectory.histories));
      expect(withoutIds(stream.trajectory.toRecord().messages_and_choices)).toEqual(
        withoutIds(plain.trajectory.toRecord().messages_and_choices),
      );
      expect(withoutIds(stream.content)).toEqual(withoutIds(plain.content));
    },
  );

  test.each(refused)('refuses %s among the provider options, by name', async (name) => {
    const call = generateText({ ...options({}), providerOptions: { martingale: { [name]: 1 } } });
    await expect(call).rejects.toThrow(`"${name}" in providerOptions.martingale`);
  });

  test('refuses unknown fields', async () => {
    const call = generateText({
      ...options({}),
      providerOptions: { martingale: { repetitionPenalty: 1.1 } },
    });
    await expect(call).rejects.toThrow('"repetitionPenalty" in providerOptions.martingale');
  });

  test('sets or refuses every field of a request', () => {
    expect([...Object.keys(fields), ...refused].sort()).toEqual(
      Object.keys(chatCompletionRequestSchema.shape).sort(),
    );
  });
});
