import { z } from 'zod';
import { optional } from '../optional.ts';
import { messageSchema } from './messages.ts';
import { responseFormatSchema, structuredOutputsSchema } from './structured-outputs.ts';
import { jsonSchemaSchema, toolChoiceSchema, toolSchema } from './tools.ts';

/** 2^63 as JSON numbers write it: the interface's own bound. */
const largest = 9223372036854776000;
const integer = z.number().int();
const tokenIds = z.array(integer.min(0));
const extraArgument = z.union([z.string(), z.number(), z.array(z.union([z.string(), z.number()]))]);

/** The body of `POST /v1/chat/completions`: every field of the interface. Only `messages` is required. */
export const chatCompletionRequestSchema = z
  .object({
    messages: z.array(messageSchema).min(1),
    model: optional(z.string()),
    frequency_penalty: optional(z.number().min(-2).max(2)),
    presence_penalty: optional(z.number().min(-2).max(2)),
    repetition_penalty: optional(z.number().positive()),
    logit_bias: optional(z.record(z.string(), z.number())),
    logprobs: optional(z.boolean()),
    top_logprobs: optional(integer.min(0).max(20)),
    max_tokens: optional(integer.min(1)),
    max_completion_tokens: optional(integer.min(1)),
    n: optional(integer.min(1).max(128)),
    response_format: optional(responseFormatSchema),
    seed: optional(z.number().min(-largest).max(largest)),
    stop: optional(z.union([z.string(), z.array(z.string())])),
    stream: optional(z.boolean()),
    stream_options: optional(
      z.object({ include_usage: optional(z.boolean()), continuous_usage_stats: optional(z.boolean()) }),
    ),
    temperature: optional(z.number().min(0).max(2)),
    top_p: optional(z.number().gt(0).max(1)),
    top_k: optional(integer.min(-1)),
    min_p: optional(z.number().min(0).max(1)),
    tools: optional(z.array(toolSchema)),
    tool_choice: optional(toolChoiceSchema),
    parallel_tool_calls: optional(z.boolean()),
    reasoning_effort: optional(z.enum(['low', 'medium', 'high'])),
    include_reasoning: optional(z.boolean()),
    user: optional(z.string()),
    use_beam_search: optional(z.boolean()),
    length_penalty: optional(z.number()),
    stop_token_ids: optional(tokenIds),
    include_stop_str_in_output: optional(z.boolean()),
    ignore_eos: optional(z.boolean()),
    min_tokens: optional(integer.min(0)),
    skip_special_tokens: optional(z.boolean()),
    spaces_between_special_tokens: optional(z.boolean()),
    truncate_prompt_tokens: optional(integer.min(-1).max(largest)),
    prompt_logprobs: optional(integer.min(0)),
    allowed_token_ids: optional(tokenIds),
    bad_words: optional(z.array(z.string())),
    echo: optional(z.boolean()),
    add_generation_prompt: optional(z.boolean()),
    continue_final_message: optional(z.boolean()),
    add_special_tokens: optional(z.boolean()),
    documents: optional(z.array(z.record(z.string(), z.unknown()))),
    chat_template: optional(z.string()),
    chat_template_kwargs: optional(z.record(z.string(), z.unknown())),
    mm_processor_kwargs: optional(z.record(z.string(), z.unknown())),
    structured_outputs: optional(structuredOutputsSchema),
    priority: optional(integer),
    request_id: optional(z.string()),
    logits_processors: optional(
      z.array(
        z.union([
          z.string(),
          z.object({
            qualname: z.string(),
            args: optional(z.array(z.unknown())),
            kwargs: optional(jsonSchemaSchema),
          }),
        ]),
      ),
    ),
    return_tokens_as_token_ids: optional(z.boolean()),
    return_token_ids: optional(z.boolean()),
    cache_salt: optional(z.string()),
    kv_transfer_params: optional(z.record(z.string(), z.unknown())),
    engine_xargs: optional(z.record(z.string(), extraArgument)),
  })
  .meta({ id: 'ChatCompletionRequest' });

/** A request as a client writes it. */
export type ChatCompletionRequest = z.input<typeof chatCompletionRequestSchema>;
/** A request as the service reads it: `null` is gone. */
export type ParsedChatCompletionRequest = z.output<typeof chatCompletionRequestSchema>;
