/** The name of a logits processor of the engine. */
export const processor = 'test.Stripes';

/** What a request to try a field has beside the field itself. */
export type Fields = Readonly<Record<string, unknown>>;

const schema = {
  type: 'object',
  properties: { a: { type: 'boolean' } },
  required: ['a'],
  additionalProperties: false,
};
const press = { type: 'function', function: { name: 'press', parameters: schema } };
const messages = [{ role: 'user', content: 'hi' }];

/**
 * A chat for each row of the table of engines, by its first cell. A field that is obeyed is given a value with which a
 * request without it would be answered otherwise.
 */
export const chatTries: Readonly<Record<string, Fields>> = {
  '`messages`, `model`': {},
  '`tools`': { tools: [press] },
  '`documents`, `chat_template`, `chat_template_kwargs`': {
    documents: [{ text: 'a text' }],
    chat_template: '{{ documents[0].text }}{{ word }}{{ messages[0].content }}',
    chat_template_kwargs: { word: 'so' },
  },
  '`add_generation_prompt`, `add_special_tokens`': { add_generation_prompt: false, add_special_tokens: true },
  '`continue_final_message`': {
    messages: [...messages, { role: 'assistant', content: 'I' }],
    continue_final_message: true,
  },
  '`truncate_prompt_tokens`': { truncate_prompt_tokens: 3 },
  '`temperature` of 0 and 1': { temperature: 0 },
  '`temperature` otherwise': { temperature: 0.7 },
  '`top_p`': { top_p: 0.5 },
  '`top_k`': { top_k: 4 },
  '`min_p`': { min_p: 0.1 },
  '`frequency_penalty`': { frequency_penalty: 0.5 },
  '`presence_penalty`': { presence_penalty: 0.5 },
  '`repetition_penalty`': { repetition_penalty: 1.2 },
  '`logit_bias`': { logit_bias: { 100: 5 } },
  '`allowed_token_ids`': { allowed_token_ids: [100, 101, 102] },
  '`bad_words`': { bad_words: ['no'] },
  '`logits_processors`, `engine_xargs`': {
    logits_processors: [{ qualname: processor, args: [2] }],
    engine_xargs: { raise: 2 },
  },
  '`seed`': { seed: 3 },
  '`n`': { n: 2 },
  '`use_beam_search`, `length_penalty`': { use_beam_search: true, n: 2, length_penalty: 0.5, temperature: 0 },
  '`max_tokens`, `max_completion_tokens`': { max_tokens: 2, max_completion_tokens: 2 },
  '`min_tokens`': { min_tokens: 2 },
  '`ignore_eos`': { ignore_eos: true },
  '`stop`, `stop_token_ids`, `include_stop_str_in_output`': {
    stop: ['a'],
    stop_token_ids: [101],
    include_stop_str_in_output: true,
  },
  '`response_format` of type `text`': { response_format: { type: 'text' } },
  '`response_format` otherwise': {
    response_format: { type: 'json_schema', json_schema: { name: 'a', schema } },
    max_tokens: 40,
  },
  '`structured_outputs`': { structured_outputs: { choice: ['yes', 'no'] } },
  '`tool_choice` `auto` and `none`, `function_call` likewise': { tools: [press], tool_choice: 'none' },
  '`tool_choice` otherwise, strict tools': { tools: [press], tool_choice: 'required', max_tokens: 60 },
  '`parallel_tool_calls` of true': { tools: [press], parallel_tool_calls: true },
  '`parallel_tool_calls` of false': { tools: [press], parallel_tool_calls: false },
  '`reasoning_effort` of `none`': { reasoning_effort: 'none' },
  '`reasoning_effort` otherwise': { reasoning_effort: 'low', max_tokens: 60 },
  '`modalities`, `include_reasoning`': { modalities: ['text'], include_reasoning: true },
  '`stream`, `stream_options`': { stream: true, stream_options: { include_usage: true } },
  '`logprobs`, `return_token_ids`, `return_tokens_as_token_ids`': {
    logprobs: true,
    return_token_ids: true,
    return_tokens_as_token_ids: true,
  },
  '`return_token_logprobs`': { return_token_logprobs: true },
  '`top_logprobs`': { logprobs: true, top_logprobs: 2 },
  '`prompt_logprobs`': { prompt_logprobs: 1 },
  '`echo`': { messages: [...messages, { role: 'assistant', content: 'I' }], echo: true },
  '`skip_special_tokens`, `spaces_between_special_tokens`': {
    skip_special_tokens: false,
    spaces_between_special_tokens: true,
  },
  '`request_id`, `user`, `safety_identifier`, `metadata`, `store`, `service_tier`': {
    request_id: 'a',
    user: 'b',
    safety_identifier: 'c',
    metadata: { d: 'e' },
    store: false,
    service_tier: 'auto',
  },
  '`prompt_cache_key`': { prompt_cache_key: 'a' },
  '`cache_salt`': { cache_salt: 'b' },
  '`priority` other than 0': { priority: 1 },
  '`mm_processor_kwargs`, `kv_transfer_params`': { mm_processor_kwargs: {}, kv_transfer_params: {} },
};

/** Stands for the name of the tried model. */
export const itself = 'itself';

/** Configurations of jobs of reinforcement learning, likewise. */
export const trainingTries: Readonly<Record<string, Fields>> = {
  '`learning_rate`': { learning_rate: 1e-3 },
  '`advantage_balance`': { advantage_balance: 0.5 },
  '`scale_rewards`': { scale_rewards: false },
  '`normalize_advantages`': { normalize_advantages: true },
  '`ppo`': { ppo: true },
  '`loss_fn`': { loss_fn: 'ppo' },
  '`epsilon`, `epsilon_high`': { epsilon: 0.1, epsilon_high: 0.3 },
  '`mask_prob_ratio`': { mask_prob_ratio: true, epsilon: 0.1 },
  '`max_negative_advantage_importance_sampling_weight`': {
    max_negative_advantage_importance_sampling_weight: 2,
  },
  '`vendor_k2_tau`': { vendor_k2_tau: 0.1 },
  '`precalculate_logprobs`': { precalculate_logprobs: true },
  '`importance_sampling_level`': { importance_sampling_level: 'sequence' },
  '`truncated_importance_sampling`': { truncated_importance_sampling: 2 },
  '`kl_penalty_coef`': { kl_penalty_coef: 0.1 },
  '`kl_penalty_reference_step`': { kl_penalty_coef: 0.1, kl_penalty_reference_step: 0 },
  '`kl_penalty_step_lag`': { kl_penalty_coef: 0.1, kl_penalty_step_lag: 1 },
  '`kl_penalty_reference_model`': { kl_penalty_coef: 0.1, kl_penalty_reference_model: itself },
  '`kl_penalty_source`': { kl_penalty_coef: 0.1, kl_penalty_source: 'sample' },
  '`entropy_coefficient`': { entropy_coefficient: 0.1 },
};

/** Configurations of supervised jobs. */
export const supervisedTries: Readonly<Record<string, Fields>> = {
  '`batch_size`': { batch_size: 1 },
  '`learning_rate`': { learning_rate: [1e-3] },
  '`assistant_turns`': { assistant_turns: 'last' },
  '`metric_logging`': { metric_logging: { enabled: false } },
};
