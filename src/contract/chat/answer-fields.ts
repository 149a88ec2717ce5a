import { z } from 'zod';
import { emptyObject, list, optional, record, text } from '../bounded.ts';
import { chatLimits } from '../limits.ts';
import { responseFormatSchema, structuredOutputsSchema } from './structured-outputs.ts';
import { toolChoiceSchema } from './tools.ts';

/** How much reasoning a reply begins with. */
export const reasoningEffortSchema = z
  .enum(['none', 'minimal', 'low', 'medium', 'high'])
  .meta({ id: 'ReasoningEffort' });

const integer = z.number().int();

/** Fields of a chat request that constrain the reply. */
const constraintFields = {
  response_format: optional(responseFormatSchema),
  structured_outputs: optional(structuredOutputsSchema),
  tool_choice: optional(toolChoiceSchema),
  function_call: optional(
    z.literal(
      'none',
      'takes "none" alone: it is the older form of tool_choice, so send tools and tool_choice',
    ),
  ).describe('Deprecated: the older form of tool_choice. "none" means what tool_choice "none" does.'),
  parallel_tool_calls: optional(z.boolean()).describe('Default true. False: at most one call a reply.'),
  reasoning_effort: optional(reasoningEffortSchema).describe(
    "minimal, low, medium and high: the reply begins with reasoning of at most 1/32, 1/16, 1/8 or 1/4 of the context's tokens, and the chat template is given the word. none, which is also what absent means: no reasoning. Efforts other than none are refused for models that know no reasoning.",
  ),
  modalities: optional(
    list(z.literal('text', 'must be "text": the models write text alone'), chatLimits.modalities),
  ).describe('Replies are text, so that nothing else can be asked for.'),
};

/** Fields of a chat request that control how the reply is returned. */
const outputFields = {
  include_reasoning: optional(z.boolean()).describe(
    'Default true: the message has the reasoning as reasoning and as reasoning_content. False: neither; it is sampled all the same, and counted, and stands in token_ids and logprobs.',
  ),
  stream: optional(z.boolean()).describe(
    'Default false. True: chunks as server-sent events. What a slow reader has not taken is merged into one chunk a choice.',
  ),
  stream_options: optional(
    z.strictObject({
      include_usage: optional(z.boolean()).describe(
        'A last chunk without choices has the usage; others have null.',
      ),
      continuous_usage_stats: optional(z.boolean()).describe(
        'Every chunk has the usage so far, over all choices; cached tokens are known at the end.',
      ),
    }),
  ).describe('Without stream: true, one that asks for something is refused.'),
  logprobs: optional(z.boolean()).describe(
    'Default false. True: choices have the log-probability of each of their tokens; see Logprobs for what it is. A trained model gives them, without bytes, where neither this nor return_token_ids is false.',
  ),
  top_logprobs: optional(integer.min(0).max(chatLimits.topLogprobs)).describe(
    `With logprobs, how many of the likeliest alternatives to report for each token: default 0, at most ${chatLimits.topLogprobs}.`,
  ),
  prompt_logprobs: optional(integer.min(0).max(chatLimits.promptLogprobs)).describe(
    `The response has prompt_logprobs: for each prompt token its log-probability and rank, and those of so many of the likeliest in its place, at most ${chatLimits.promptLogprobs}. Streamed, they are in the first chunk.`,
  ),
  return_tokens_as_token_ids: optional(z.boolean()).describe(
    'Default false. True: tokens in logprobs are written token_id:<id>.',
  ),
  return_token_ids: optional(z.boolean()).describe(
    'True: choices have token_ids, the response has prompt_token_ids. Streamed, the first chunk has the prompt and each chunk its own tokens. Absent, for a trained model (entity/project/name): choices carry what training needs, which is token_ids, logprobs, sampling and, where the messages do not give it, the prompt; streamed, all of it in the entries of logprobs (token_id, choice), which readers of streams keep. False, and absent for a base model: none.',
  ),
  echo: optional(z.boolean()).describe(
    "Default false. True: where the last message is the assistant's, the content of each choice begins with that message's text, which is none of its tokens.",
  ),
  skip_special_tokens: optional(z.boolean()).describe(
    'Default true. False: special tokens of the reply show as their text in its content. Tokens that begin calls and bound the reasoning are never text, nor is what ended the reply, unless include_stop_str_in_output.',
  ),
  spaces_between_special_tokens: optional(z.boolean()).describe(
    'Default true. With skip_special_tokens false: a space stands between a special token and its neighbours.',
  ),
  include_stop_str_in_output: optional(z.boolean()).describe(
    'Default false: the text ends before the stop string or stop token that ended it. True: after it.',
  ),
};

/** Fields of a chat request about its handling: the log, priority and caches. */
const handlingFields = {
  request_id: optional(text(chatLimits.requestId).min(1)).describe(
    "The id of the completion is this after chatcmpl-. Default: a random UUID. It stands in the service's log.",
  ),
  user: optional(text(chatLimits.user)).describe("Who asks, for the service's log."),
  safety_identifier: optional(text(chatLimits.hint)).describe(
    "Who asks, under a name that tells nothing of them, for the service's log. Nothing is blocked by it.",
  ),
  prompt_cache_key: optional(text(chatLimits.hint)).describe(
    "Stands in the service's log. Computed prefixes are found by their tokens, whatever this says: cache_salt is what keeps them apart.",
  ),
  metadata: optional(
    record(text(chatLimits.metadataLength), {
      entries: chatLimits.metadata,
      name: chatLimits.metadataName,
    }),
  ).describe("Names and values for the service's log."),
  store: optional(z.literal(false, 'must be false or absent: completions are not kept')).describe(
    'True is refused: completions are not kept.',
  ),
  service_tier: optional(z.enum(['auto', 'default'])).describe(
    'There is one tier, which the response names where the request did.',
  ),
  priority: optional(integer).describe(
    'Default 0. Of requests that wait, those with the lowest value are taken first. Anything but 0 is refused where the service does not schedule by priority.',
  ),
  cache_salt: optional(text(chatLimits.cacheSalt).min(1)).describe(
    'Computed prefixes are shared between requests of the same salt alone, so that no other can tell from its timing what this prompt begins with. Not empty; should be random and secret.',
  ),
  kv_transfer_params: optional(emptyObject('prompts are computed where replies are sampled')).describe(
    'Anything but an empty object is refused: prompts are computed where replies are sampled.',
  ),
};

/** Fields of a chat request that constrain the reply, control how it is returned, and how the request is handled. */
export const answerFields = { ...constraintFields, ...outputFields, ...handlingFields };
