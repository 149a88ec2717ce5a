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
      'must be "none": it is the older form of tool_choice, so send tools and tool_choice instead',
    ),
  ).describe('Deprecated: the older form of tool_choice. "none" has the same effect as tool_choice "none".'),
  parallel_tool_calls: optional(z.boolean()).describe('Default true. False: at most one call per reply.'),
  reasoning_effort: optional(reasoningEffortSchema).describe(
    "minimal, low, medium, high: the reply begins with reasoning of at most 1/32, 1/16, 1/8 or 1/4 of the context's tokens. The chat template receives the value. none (default): no reasoning. Other values are refused for models without reasoning. With a checkpoint, none renders empty reasoning into the prompt, and without the field the model reasons as it likes.",
  ),
  modalities: optional(
    list(z.literal('text', 'must be "text": the models write only text'), chatLimits.modalities),
  ).describe('Only text: the models write nothing else.'),
};

/** Fields of a chat request that control how the reply is returned. */
const outputFields = {
  include_reasoning: optional(z.boolean()).describe(
    'Default true: the message has the reasoning as reasoning and as reasoning_content. False: neither. The reasoning is still sampled and counted, and is part of token_ids and logprobs.',
  ),
  stream: optional(z.boolean()).describe(
    'Default false. True: chunks as server-sent events. The first text of a reply is sent at once; what follows is merged into a chunk per choice every 50 ms (less often with more than 100 streams at once), or as fast as the client reads if that is slower.',
  ),
  stream_options: optional(
    z.strictObject({
      include_usage: optional(z.boolean()).describe(
        'A last chunk without choices contains the usage. All other chunks have usage null.',
      ),
      continuous_usage_stats: optional(z.boolean()).describe(
        'Every chunk contains the usage so far, over all choices. Cached tokens are only in the last one.',
      ),
    }),
  ).describe('Refused without stream: true if any of them is true.'),
  logprobs: optional(z.boolean()).describe(
    'Default false for base models. True: choices contain the log-probability of each of their tokens, as defined in Logprobs. Trained models return them unless this field or return_token_ids is false.',
  ),
  top_logprobs: optional(integer.min(0).max(chatLimits.topLogprobs)).describe(
    `Number of most likely alternatives that logprobs report for each token. Default 0, at most ${chatLimits.topLogprobs}.`,
  ),
  prompt_logprobs: optional(integer.min(0).max(chatLimits.promptLogprobs)).describe(
    `The response contains prompt_logprobs: the log-probability and rank of each prompt token, and of this many most likely tokens at its position, at most ${chatLimits.promptLogprobs}. In a stream, they are in the first chunk.`,
  ),
  return_tokens_as_token_ids: optional(z.boolean()).describe(
    'Default false. True: logprobs write tokens as token_id:<id>.',
  ),
  return_token_ids: optional(z.boolean()).describe(
    'True: choices contain token_ids, and the response contains prompt_token_ids. In a stream, the first chunk contains the prompt, and each chunk its own tokens. Absent, for a trained model (entity/project/name): choices contain what training needs: token_ids, logprobs, sampling and the prompt. In a stream, all of this is in the entries of logprobs (token_id, choice), which stream readers keep. False, or absent for a base model: none of it.',
  ),
  return_token_logprobs: optional(z.boolean()).describe(
    'Default false. True: choices contain token_ids, token_logprobs and token_texts, lists of equal length, in place of logprobs: a fifth of the memory. In a stream, each chunk contains its own tokens. Refused with logprobs: true and with return_token_ids: false.',
  ),
  echo: optional(z.boolean()).describe(
    "Default false. True: if the last message is an assistant message, the content of each choice begins with its text. That text is not part of the choice's tokens.",
  ),
  skip_special_tokens: optional(z.boolean()).describe(
    'Default true. False: the content shows special tokens of the reply as text. It shows the token that ended the reply only with include_stop_str_in_output.',
  ),
  spaces_between_special_tokens: optional(z.boolean()).describe(
    'Default true. With skip_special_tokens false: a space separates a special token from its neighbours.',
  ),
  include_stop_str_in_output: optional(z.boolean()).describe(
    'Default false: the text ends before the stop string or stop token that ended the reply. True: after it.',
  ),
};

/** Fields of a chat request about its handling: the log, priority and caches. */
const handlingFields = {
  request_id: optional(text(chatLimits.requestId).min(1)).describe(
    "The id of the completion is chatcmpl- followed by this value, which is also in the service's log. Default: a random UUID.",
  ),
  user: optional(text(chatLimits.user)).describe("The user who sent the request, for the service's log."),
  safety_identifier: optional(text(chatLimits.hint)).describe(
    "A pseudonym of the user who sent the request, for the service's log. No request is blocked because of it.",
  ),
  prompt_cache_key: optional(text(chatLimits.hint)).describe(
    "For the service's log. It has no effect on caching: computed prefixes are found by their tokens, and cache_salt separates them.",
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
    'No effect: there is only one tier. The response names it if the request names one.',
  ),
  priority: optional(integer).describe(
    'Default 0. Of the waiting requests, those with the lowest value are served first. If the service does not schedule by priority, other values than 0 are refused.',
  ),
  cache_salt: optional(text(chatLimits.cacheSalt).min(1)).describe(
    'Computed prefixes are shared only between requests with the same salt, so that others cannot infer the start of this prompt from response times. Use a random, secret value. Must not be empty.',
  ),
  kv_transfer_params: optional(
    emptyObject('the process that samples replies also computes prompts'),
  ).describe('Must be empty: the process that samples replies also computes prompts.'),
};

/** Fields of a chat request that constrain the reply, control how it is returned, and how the request is handled. */
export const answerFields = { ...constraintFields, ...outputFields, ...handlingFields };
