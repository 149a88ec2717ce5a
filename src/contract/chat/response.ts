import { z } from 'zod';
import {
  answeredTokens,
  boundedNumber,
  list,
  numberList,
  record,
  text,
  withDefault,
  withShortcut,
} from '../bounded.ts';
import { chatLimits, requestLimits, trainingLimits } from '../limits.ts';
import { engineArgumentSchema, logitsProcessorSchema } from './sampling-fields.ts';
import { toolCallSchema } from './tools.ts';

export const topLogprobSchema = z
  .object({
    token: text(trainingLimits.token),
    logprob: boundedNumber(),
    bytes: list(z.number().int(), trainingLimits.token).nullish(),
  })
  .meta({ id: 'TopLogprob' });

const logprobsMeaning =
  'Natural logarithms of the probabilities of the sampled tokens, each under the distribution that it was sampled from. That distribution covers the tokens that the constraint and the other fields allow at this position. It is computed after logits_processors, logit_bias and penalties, divided by the temperature (by 1 if the temperature is 0), cut by top_k, top_p and min_p, and renormalised over the remaining tokens. A token without alternatives has 0. A probability of 0 is written as -9999.';

export const samplingSchema = z
  .object({
    temperature: boundedNumber(),
    top_p: boundedNumber(),
    top_k: z.number().int(),
    min_p: boundedNumber(),
    constraint: text(requestLimits.name).nullable(),
    repetition_penalty: boundedNumber().nullish(),
    frequency_penalty: boundedNumber().nullish(),
    presence_penalty: boundedNumber().nullish(),
    logit_bias: record(boundedNumber(), { entries: chatLimits.biases }).nullish(),
    allowed_token_ids: answeredTokens(chatLimits.allowedTokens).nullish(),
    bad_words: list(text(chatLimits.badWordLength), chatLimits.badWords).nullish(),
    min_tokens: z.number().int().nullish(),
    stop_token_ids: answeredTokens(chatLimits.stopTokens + 1)
      .nullish()
      .describe('Tokens that were not allowed before min_tokens, including the end token.'),
    ignore_eos: z.boolean().nullish(),
    logits_processors: list(logitsProcessorSchema, chatLimits.processors).nullish(),
    engine_xargs: record(engineArgumentSchema, { entries: chatLimits.engineArguments }).nullish(),
    beam_search: z
      .boolean()
      .nullish()
      .describe('Found by beam search, so not a sample of a distribution: training refuses it.'),
    prompt: text(requestLimits.name)
      .nullish()
      .describe(
        'Hash of the token ids of the prompt. Training refuses a choice that follows other messages or tools than when it was sampled.',
      ),
    own_prompt: z
      .boolean()
      .nullish()
      .describe(
        "Messages and tools alone do not render to this prompt: training needs the choice's prompt_token_ids.",
      ),
    reply: text(requestLimits.name)
      .nullish()
      .describe('Hash of the sampled token ids. Training refuses a choice with other token ids.'),
  })
  .meta({
    id: 'Sampling',
    description:
      'Reproduces the distribution that a choice was sampled from. An absent field was off. constraint is the hash of the grammar. For training, send choices back unchanged, including this object.',
  });

const promptIds = () =>
  answeredTokens()
    .nullish()
    .describe(
      'Ids of the prompt. Present if the choice has token_ids. Training uses them if the messages before the choice render to other ids.',
    );

/**
 * Fields that a streamed choice has on its first token. Readers of streams keep the entries of logprobs and drop other
 * fields.
 */
const carriedSchema = z.object({ sampling: samplingSchema, prompt_token_ids: promptIds() });

const logprobEntrySchema = topLogprobSchema.extend({
  top_logprobs: withDefault(list(topLogprobSchema, trainingLimits.topLogprobs), []),
  token_id: z
    .number()
    .int()
    .nullish()
    .describe("Added by us, in streams from a trained model without return_token_ids: the token's id."),
  choice: carriedSchema
    .nullish()
    .describe("Added by us, next to the first token_id of a choice: the choice's fields of the same names."),
});

/** A copy of a list of entries without alternatives, as most choices have. */
const copyBareEntries = (value: unknown): LogprobEntry[] | typeof z.INVALID =>
  Array.isArray(value) && value.length <= requestLimits.tokens && value.every(isBareEntry)
    ? value.slice()
    : z.INVALID;

type LogprobEntry = z.output<typeof logprobEntrySchema>;

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

function isBareEntry(entry: unknown): entry is LogprobEntry {
  if (!isRecord(entry)) return false;
  let fields = 0;
  for (const _ in entry) fields++;
  const { token, logprob, bytes, top_logprobs } = entry;
  return (
    fields === 4 &&
    typeof token === 'string' &&
    token.length <= trainingLimits.token &&
    typeof logprob === 'number' &&
    Math.abs(logprob) <= requestLimits.number &&
    (bytes === null || areBytes(bytes)) &&
    Array.isArray(top_logprobs) &&
    top_logprobs.length === 0
  );
}

const areBytes = (value: unknown): boolean =>
  Array.isArray(value) && value.length <= trainingLimits.token && value.every(Number.isSafeInteger);

/** One entry for each sampled token, including the end token. */
export const logprobsSchema = z
  .object({
    content: withShortcut(list(logprobEntrySchema, requestLimits.tokens), copyBareEntries).nullish(),
  })
  .meta({ id: 'Logprobs', description: logprobsMeaning });

/** A copy of a list of short texts. */
const copyTexts = (value: unknown): string[] | typeof z.INVALID =>
  Array.isArray(value) &&
  value.length <= requestLimits.tokens &&
  value.every((item) => typeof item === 'string' && item.length <= trainingLimits.token)
    ? value.slice()
    : z.INVALID;

/** What `logprobs` says without alternatives, as two lists beside `token_ids`. */
const tokenLists = {
  token_logprobs: numberList(boundedNumber(), requestLimits.tokens)
    .nullish()
    .describe(
      'With return_token_logprobs: the log-probability of each of token_ids, as defined in Logprobs. A choice may be sent back for training with them in place of logprobs.',
    ),
  token_texts: withShortcut(list(text(trainingLimits.token), requestLimits.tokens), copyTexts)
    .nullish()
    .describe('With return_token_logprobs: the text of each of token_ids. Only for people.'),
};

/** Clients send choices back for training with `null`, or nothing, for absent fields. */
export const responseMessageSchema = z
  .object({
    role: z.literal('assistant'),
    content: text().nullish(),
    refusal: text().nullish(),
    reasoning: text().nullish(),
    reasoning_content: text().nullish(),
    tool_calls: list(toolCallSchema, chatLimits.calls).nullish(),
    /** Fields of OpenAI's interface. A text model has none of them. */
    annotations: z.unknown().optional(),
    audio: z.unknown().optional(),
    function_call: z.object({ name: text(requestLimits.name), arguments: text() }).nullish(),
  })
  .meta({ id: 'ResponseMessage' });

export const finishReasonSchema = z
  .enum([
    'stop',
    'length',
    'tool_calls',
    // Reasons of OpenAI's interface. This service never ends a reply with them.
    'content_filter',
    'function_call',
  ])
  .meta({ id: 'FinishReason' });

const endFields = {
  // Other services have the stop string here, and so have choices that this one sampled earlier.
  stop_reason: z
    .union([text(), z.number().int()])
    .nullish()
    .describe(
      'The stop token that ended the choice, an integer. Null for a stop string, the end token and length. In training requests it may be the stop string.',
    ),
  stop_string: text().nullish().describe('Added by us: the stop string that ended the choice.'),
};

export const choiceSchema = z
  .object({
    index: z.number().int(),
    message: responseMessageSchema,
    logprobs: logprobsSchema.nullish(),
    finish_reason: finishReasonSchema,
    ...endFields,
    token_ids: answeredTokens()
      .nullish()
      .describe(
        'The sampled ids, including the end token. Returned by trained models unless return_token_ids is false, by base models only if it is true.',
      ),
    ...tokenLists,
    sampling: samplingSchema.nullish(),
    credited_reward: boundedNumber()
      .nullish()
      .describe(
        "Added by us, only in training requests: the reward credited to this choice, instead of its trajectory's reward.",
      ),
    prompt_token_ids: promptIds(),
    added_prompt_token_ids: answeredTokens()
      .nullish()
      .describe(
        'Added by us, only in a group that is sent by itself (POST /v1/preview/models/{model_id}/groups), in place of prompt_token_ids: the ids of the prompt that follow the prompt and the reply of the choice before it in the same conversation.',
      ),
  })
  .meta({ id: 'Choice' });

export const promptLogprobSchema = z
  .record(z.string(), z.object({ logprob: z.number(), rank: z.number().int(), decoded_token: z.string() }))
  .meta({
    id: 'PromptLogprob',
    description:
      "A prompt token and the most likely tokens at its position, by token id, under the model's own distribution over the whole vocabulary at temperature 1. The most likely token has rank 1.",
  });

const promptFields = {
  prompt_logprobs: z
    .array(promptLogprobSchema.nullable())
    .nullish()
    .describe('One for each prompt token, in order. Null for the first, which has no preceding token.'),
  prompt_token_ids: z.array(z.number().int()).nullish(),
};

export const usageSchema = z
  .object({
    prompt_tokens: z.number().int(),
    completion_tokens: z.number().int(),
    total_tokens: z.number().int(),
    prompt_tokens_details: z.object({ cached_tokens: z.number().int() }).nullish(),
  })
  .meta({ id: 'Usage' });

export const serviceTierSchema = z
  .enum(['auto', 'default', 'flex', 'scale', 'priority'])
  .meta({ id: 'ServiceTier' });

const serviceTier = serviceTierSchema.nullish().describe('default, if the request names a tier.');

export const chatCompletionSchema = z
  .object({
    id: z.string(),
    object: z.literal('chat.completion'),
    created: z.number().int(),
    /** The pinned name of the checkpoint that answered (`entity/project/name:stepN`), or the base model's name. */
    model: z.string(),
    choices: z.array(choiceSchema),
    usage: usageSchema,
    service_tier: serviceTier,
    system_fingerprint: z
      .string()
      .nullish()
      .describe('Depends on the engine and base model, not on the weights.'),
    kv_transfer_params: z.record(z.string(), z.unknown()).nullish(),
    ...promptFields,
  })
  .meta({ id: 'ChatCompletion' });

const toolCallDelta = z.object({
  index: z.number().int(),
  id: z.string().optional(),
  type: z.literal('function').optional(),
  function: z.object({ name: z.string().optional(), arguments: z.string().optional() }),
});

export const chatCompletionChunkSchema = z
  .object({
    id: z.string(),
    object: z.literal('chat.completion.chunk'),
    created: z.number().int(),
    model: z.string(),
    choices: z.array(
      z.object({
        index: z.number().int(),
        delta: z.object({
          role: z.literal('assistant').optional(),
          content: z.string().nullish(),
          refusal: z.string().nullish(),
          reasoning: z.string().nullish(),
          reasoning_content: z.string().nullish(),
          tool_calls: z.array(toolCallDelta).optional(),
        }),
        logprobs: logprobsSchema.nullish(),
        finish_reason: finishReasonSchema.nullable(),
        ...endFields,
        token_ids: z.array(z.number().int()).nullish(),
        ...tokenLists,
        sampling: samplingSchema.nullish(),
        prompt_token_ids: z.array(z.number().int()).nullish(),
      }),
    ),
    usage: usageSchema.nullish(),
    service_tier: serviceTier,
    system_fingerprint: z.string().nullish(),
    ...promptFields,
  })
  .meta({ id: 'ChatCompletionChunk' });

export type Logprobs = z.infer<typeof logprobsSchema>;
export type Sampling = z.infer<typeof samplingSchema>;
export type ResponseMessage = z.infer<typeof responseMessageSchema>;
export type FinishReason = z.infer<typeof finishReasonSchema>;
export type Choice = z.infer<typeof choiceSchema>;
export type PromptLogprob = z.infer<typeof promptLogprobSchema>;
export type Usage = z.infer<typeof usageSchema>;
export type ChatCompletion = z.infer<typeof chatCompletionSchema>;
export type ChatCompletionChunk = z.infer<typeof chatCompletionChunkSchema>;
