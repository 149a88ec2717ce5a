import { z } from 'zod';
import { toolCallSchema } from './tools.ts';

const topLogprob = z.object({
  token: z.string(),
  logprob: z.number(),
  bytes: z.array(z.number().int()).nullish(),
});

/**
 * Log-probabilities (natural logarithm) of the sampled tokens under the distribution they were sampled from:
 * after temperature and the grammar's mask, and renormalised over what top_k, top_p and min_p left.
 */
export const logprobsSchema = z
  .object({ content: z.array(topLogprob.extend({ top_logprobs: z.array(topLogprob) })).nullish() })
  .meta({ id: 'Logprobs' });

/**
 * What reproduces the distribution a choice was sampled from. Clients send choices back whole, so that training
 * computes log-probabilities under that same distribution. `constraint` names the grammar by its hash.
 */
export const samplingSchema = z
  .object({
    temperature: z.number(),
    top_p: z.number(),
    top_k: z.number().int(),
    min_p: z.number(),
    constraint: z.string().nullable(),
  })
  .meta({ id: 'Sampling' });

/** Choices come back for training as their client wrote them: with `null`, or nothing, for what is not there. */
export const responseMessageSchema = z
  .object({
    role: z.literal('assistant'),
    content: z.string().nullish(),
    refusal: z.string().nullish(),
    reasoning: z.string().nullish(),
    reasoning_content: z.string().nullish(),
    tool_calls: z.array(toolCallSchema).nullish(),
  })
  .meta({ id: 'ResponseMessage' });

export const finishReasonSchema = z.enum(['stop', 'length', 'tool_calls']);

export const choiceSchema = z
  .object({
    index: z.number().int(),
    message: responseMessageSchema,
    logprobs: logprobsSchema.nullish(),
    finish_reason: finishReasonSchema,
    /** The stop string or stop token that ended the choice, where one did. */
    stop_reason: z.union([z.string(), z.number().int()]).nullish(),
    /** The ids that were sampled, the end token among them, when `return_token_ids` asked for them. */
    token_ids: z.array(z.number().int()).nullish(),
    sampling: samplingSchema.nullish(),
  })
  .meta({ id: 'Choice' });

export const usageSchema = z
  .object({
    prompt_tokens: z.number().int(),
    completion_tokens: z.number().int(),
    total_tokens: z.number().int(),
    prompt_tokens_details: z.object({ cached_tokens: z.number().int() }).nullish(),
  })
  .meta({ id: 'Usage' });

export const chatCompletionSchema = z
  .object({
    id: z.string(),
    object: z.literal('chat.completion'),
    created: z.number().int(),
    /** The pinned name of the checkpoint that answered (`entity/project/name:stepN`), or the base model's name. */
    model: z.string(),
    choices: z.array(choiceSchema),
    usage: usageSchema,
    system_fingerprint: z.string().nullish(),
    prompt_token_ids: z.array(z.number().int()).nullish(),
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
          tool_calls: z.array(toolCallDelta).optional(),
        }),
        logprobs: logprobsSchema.nullish(),
        finish_reason: finishReasonSchema.nullable(),
        stop_reason: z.union([z.string(), z.number().int()]).nullish(),
        token_ids: z.array(z.number().int()).nullish(),
        sampling: samplingSchema.nullish(),
      }),
    ),
    usage: usageSchema.nullish(),
    prompt_token_ids: z.array(z.number().int()).nullish(),
  })
  .meta({ id: 'ChatCompletionChunk' });

export type Logprobs = z.infer<typeof logprobsSchema>;
export type Sampling = z.infer<typeof samplingSchema>;
export type ResponseMessage = z.infer<typeof responseMessageSchema>;
export type FinishReason = z.infer<typeof finishReasonSchema>;
export type Choice = z.infer<typeof choiceSchema>;
export type Usage = z.infer<typeof usageSchema>;
export type ChatCompletion = z.infer<typeof chatCompletionSchema>;
export type ChatCompletionChunk = z.infer<typeof chatCompletionChunkSchema>;
