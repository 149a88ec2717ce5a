import { chatCompletionRequestSchema } from '../../contract/index.ts';
import { isObject, type JsonObject, refuseUnknownFields } from '../body.ts';
import { unsupportedField } from '../errors.ts';

const known = new Set([
  ...Object.keys(chatCompletionRequestSchema.shape),
  // Chat clients send these; they name, file and bill requests, and say nothing about sampling.
  'metadata',
  'store',
  'service_tier',
]);

/**
 * Fields of the interface that this service does not act on yet, each with the values that ask for nothing.
 * Any other value is refused by name.
 */
const neutralValues = new Map<string, readonly unknown[]>([
  ['frequency_penalty', [0]],
  ['presence_penalty', [0]],
  ['repetition_penalty', [1]],
  ['reasoning_effort', []],
  ['include_reasoning', [true]],
  ['use_beam_search', [false]],
  ['length_penalty', [1]],
  ['include_stop_str_in_output', [false]],
  ['ignore_eos', [false]],
  ['min_tokens', [0]],
  ['skip_special_tokens', [true]],
  ['spaces_between_special_tokens', [true]],
  ['truncate_prompt_tokens', []],
  ['prompt_logprobs', []],
  ['allowed_token_ids', []],
  ['echo', [false]],
  ['add_generation_prompt', [true]],
  ['continue_final_message', [false]],
  ['add_special_tokens', [false]],
  ['chat_template', []],
  ['priority', [0]],
  ['return_tokens_as_token_ids', [false]],
  ['cache_salt', []],
  // Empty collections ask for nothing: see `isEmpty`.
  ['logit_bias', []],
  ['bad_words', []],
  ['documents', []],
  ['chat_template_kwargs', []],
  ['mm_processor_kwargs', []],
  ['logits_processors', []],
  ['kv_transfer_params', []],
  ['engine_xargs', []],
]);

/** Refuses, by name, what a chat request asks for and this service would not do. */
export function refuseUnsupportedFields(body: JsonObject): void {
  refuseUnknownFields(body, known);
  for (const name of Object.keys(body)) {
    const neutral = neutralValues.get(name);
    const value = body[name];
    if (neutral === undefined || value === null || neutral.includes(value)) continue;
    if (name !== 'allowed_token_ids' && isEmpty(value)) continue;
    throw unsupportedField([name], value);
  }
  const options = body.stream_options;
  if (isObject(options) && options.continuous_usage_stats === true)
    throw unsupportedField(['stream_options', 'continuous_usage_stats'], true);
}

function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) && Object.keys(value).length === 0;
}
