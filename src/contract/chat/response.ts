import { z } from 'zod';
import { answeredTokens, figure, list, record, text } from '../bounded.ts';
import { chatLimits, requestLimits, trainingLimits } from '../limits.ts';
import { engineArgumentSchema, logitsProcessorSchema } from './sampling-fields.ts';
import { toolCallSchema } from './tools.ts';

export const topLogprobSchema = z
  .object({
    token: text(trainingLimits.token),
    logprob: figure(),
    bytes: list(z.number().int(), trainingLimits.token).nullish(),
  })
  .meta({ id: 'TopLogprob' });

const logprobsMeaning =
  'Natural logarithms of the probabilities of the sampled tokens under the distribution that each was sampled from: over the tokens that its constraint and the other fields allowed there, after logits_processors, logit_bias and penalties, divided by the temperature (1 where that is 0), cut by top_k, top_p and min_p, and renormalised over what these left. A token that had no alternative has 0; a probability of 0 is written -9999.';

export const samplingSchema = z
  .object({
    temperature: figure(),
    top_p: figure(),
    top_k: z.number().int(),
    min_p: figure(),
    constraint: text(requestLimits.name).nullable(),
    repetition_penalty: figure().nullish(),
    frequency_penalty: figure().nullish(),
    presence_penalty: figure().nullish(),
    logit_bias: record(figure(), { entries: chatLimits.biases }).nullish(),
    allowed_token_ids: answeredTokens(chatLimits.allowedTokens).nullish(),
    bad_words: list(text(chatLimits.badWordLength), chatLimits.badWords).nullish(),
    min_tokens: z.number().int().nullish(),
    stop_token_ids: answeredTokens(chatLimits.stopTokens + 1)
      .nullish()
      .describe('Tokens that could not come before min_tokens, the end token among them.'),
    ignore_eos: z.boolean().nullish(),
    logits_processors: list(logitsProcessorSchema, chatLimits.processors).nullish(),
    engine_xargs: record(engineArgumentSchema, { entries: chatLimits.engineArguments }).nullish(),
    beam_search: z
      .boolean()
      .nullish()
      .describe('Found by beam search: no sample of a distribution, so that training refuses it.'),
    prompt: text(requestLimits.name)
      .nullish()
      .describe(
        'Names the prompt it was sampled after by a hash of its ids. Training compares: a choice that stands after other messages or tools than it was sampled after is refused.',
      ),
    own_prompt: z
      .boolean()
      .nullish()
      .describe(
        "The prompt is not what messages and tools alone render to: training needs the choice's prompt_token_ids.",
      ),
    reply: text(requestLimits.name)
      .nullish()
      .describe(
        'Names the sampled tokens by a hash of their ids. Training compares: a choice with other token ids is refused.',
      ),
  })
  .meta({
    id: 'Sampling',
    description:
      'What reproduces the distribution that a choice was sampled from; what is not there is off. constraint is the hash of the grammar. Send choices back for training as they came, with this in them.',
  });

const promptIds = () =>
  answeredTokens()
    .nullish()
    .describe(
      'Ids of the prompt it was sampled after, where the choice has its token ids, and sampling.own_prompt is true or an earlier reply came back as text, which need not give its sampled ids again. Training takes them where the messages before the choice render to something else.',
    );

/**
 * Fields that a streamed choice has on its first token. Readers of streams keep the entries of logprobs and drop other
 * fields.
 */
const carriedSchema = z.object({ sampling: samplingSchema, prompt_token_ids: promptIds() });

/** One entry for each sampled token, including the end token. */
export const logprobsSchema = z
  .object({
    content: list(
      topLogprobSchema.extend({
        top_logprobs: list(topLogprobSchema, trainingLimits.topLogprobs).default([]),
        token_id: z
          .number()
          .int()
          .nullish()
          .describe(
            "Added by us, in streams from a trained model that did not say return_token_ids: the token's id.",
          ),
        choice: carriedSchema
          .nullish()
          .describe(
            "Added by us, beside the first token_id of a choice: the choice's fields of these names.",
          ),
      }),
      requestLimits.tokens,
    ).nullish(),
  })
  .meta({ id: 'Logprobs', description: logprobsMeaning });

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

export const choiceSchema = z
  .object({
    index: z.number().int(),
    message: responseMessageSchema,
    logprobs: logprobsSchema.nullish(),
    finish_reason: finishReasonSchema,
    stop_reason: z
      .union([text(), z.number().int()])
      .nullish()
      .describe(
        'The stop string or stop token that ended the choice; null for the end token and for length.',
      ),
    token_ids: answeredTokens()
      .nullish()
      .describe(
        'The ids that were sampled, the end token among them: from a trained model unless return_token_ids is false, from a base model where it is true.',
      ),
    sampling: samplingSchema.nullish(),
    credited_reward: figure()
      .nullish()
      .describe(
        "Added by us, in training requests alone: what the choice is credited with, in place of its trajectory's reward.",
      ),
    prompt_token_ids: promptIds(),
  })
  .meta({ id: 'Choice' });

export const promptLogprobSchema = z
  .record(z.string(), z.object({ logprob: z.number(), rank: z.number().int(), decoded_token: z.string() }))
  .meta({
    id: 'PromptLogprob',
    description:
      "A prompt token and the likeliest ones in its place, by token id, under the model's own distribution: the whole vocabulary at temperature 1. rank 1 is the likeliest.",
  });

const promptFields = {
  prompt_logprobs: z
    .array(promptLogprobSchema.nullable())
    .nullish()
    .describe('For each prompt token in order; null for the first, which nothing stands before.'),
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

const serviceTier = serviceTierSchema.nullish().describe('default, where the request named a tier.');

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
      .describe('The same for the same engine and base model, whatever the weights.'),
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
        stop_reason: z.union([z.string(), z.number().int()]).nullish(),
        token_ids: z.array(z.number().int()).nullish(),
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
