import { z } from 'zod';
import { chatLimits, engineArgumentSchema, type Sampling } from '../../contract/index.ts';
import type { BaseModel, ProcessorCall, SamplingParameters } from '../../engines/engine.ts';
import { type ChatFormat, tokenIdsHash } from '../../language/basics.ts';
import { plainSampling } from '../../learning/index.ts';
import { invalidField, ServiceError } from '../errors.ts';
import type { ChatRequest } from './chat-request.ts';
import type { Prompt } from './prompt.ts';

interface SamplingContext {
  base: Pick<BaseModel, 'contextLength'>;
  tools: { format: ChatFormat };
  prompt: Prompt;
  constraintHash: string | null;
}

/** How the replies to a prompt are sampled. */
interface ReplySampling {
  /** The most tokens that one may have. */
  maxTokens: number;
  sampling: SamplingParameters;
  /** What each choice reports of it. */
  reported: Sampling;
}

/**
 * Reads how the replies to a prompt are sampled. Temperature defaults to 1, as training assumes. Throws a 422 that names
 * an invalid field, and a 400 if the prompt leaves no room for a reply.
 */
export function toReplySampling(request: ChatRequest, context: SamplingContext): ReplySampling {
  const maxTokens = toMaxTokens(request, context);
  refuseLongReports(request, maxTokens);
  const minTokens = toMinTokens(request, context.tools.format, maxTokens);
  const sampling = toParameters(request, minTokens);
  const { prompt, constraintHash } = context;
  const reported = {
    ...toSampling(sampling, constraintHash),
    prompt: tokenIdsHash(prompt.tokens),
    ...(request.use_beam_search ? { beam_search: true } : {}),
    ...(prompt.own ? { own_prompt: true } : {}),
  };
  return { maxTokens, sampling, reported };
}

/** The token limit of a reply: the requested one, at most what the context leaves. */
function toMaxTokens(
  request: ChatRequest,
  { prompt: { tokens }, base: { contextLength } }: SamplingContext,
): number {
  const left = contextLength - tokens.length;
  if (left < 1)
    throw new ServiceError(
      400,
      'context_length_exceeded',
      `The prompt has ${tokens.length} tokens, but the model's context holds ${contextLength}, reply included. Shorten the messages.`,
    );
  return Math.min(request.max_completion_tokens ?? request.max_tokens ?? left, left);
}

/** Refuses so many alternatives per token that the answer would be hundreds of megabytes. */
function refuseLongReports({ n = 1, top_logprobs: top = 0 }: ChatRequest, maxTokens: number): void {
  const reported = n * maxTokens * (1 + top);
  if (top === 0 || reported <= chatLimits.reported) return;
  throw invalidField(
    ['top_logprobs'],
    `of ${top}, for ${n} choices of up to ${maxTokens} tokens, could report ${reported} log-probabilities; the limit is ${chatLimits.reported}. Request fewer alternatives, choices or max_completion_tokens`,
    top,
  );
}

function toMinTokens(
  { min_tokens: count = 0, stop_token_ids: stops }: ChatRequest,
  format: ChatFormat,
  maxTokens: number,
): SamplingParameters['minTokens'] {
  if (count === 0) return null;
  if (count > maxTokens)
    throw invalidField(['min_tokens'], `must be at most ${maxTokens}, the token limit of this reply`, count);
  return { count, barred: [...new Set([format.endToken, ...format.otherEndTokens, ...(stops ?? [])])] };
}

/**
 * What a choice carries so that a trainer computes log-probabilities under the sampler's distribution:
 * every parameter that differs from its neutral value, and the constraint's hash. `fromSampling` is the
 * inverse.
 */
export function toSampling(sampling: SamplingParameters, constraintHash: string | null): Sampling {
  const { repetitionPenalty, frequencyPenalty, presencePenalty, logitBias } = sampling;
  const { allowedTokens, bannedTexts, minTokens, ignoreEnd, processors } = sampling;
  return {
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    constraint: constraintHash,
    ...(repetitionPenalty === 1 ? {} : { repetition_penalty: repetitionPenalty }),
    ...(frequencyPenalty === 0 ? {} : { frequency_penalty: frequencyPenalty }),
    ...(presencePenalty === 0 ? {} : { presence_penalty: presencePenalty }),
    ...(logitBias.length === 0 ? {} : { logit_bias: Object.fromEntries(logitBias) }),
    ...(allowedTokens === null ? {} : { allowed_token_ids: [...allowedTokens] }),
    ...(bannedTexts.length === 0 ? {} : { bad_words: [...bannedTexts] }),
    ...(minTokens === null ? {} : { min_tokens: minTokens.count, stop_token_ids: [...minTokens.barred] }),
    ...(ignoreEnd ? { ignore_eos: true } : {}),
    ...(processors.length === 0 ? {} : fromProcessors(processors)),
  };
}

/** The parameters that a choice was sampled with; without `sampling`, the model's plain distribution. */
export function fromSampling(sampling: Sampling | null | undefined): SamplingParameters {
  const count = sampling?.min_tokens ?? 0;
  return toParameters(sampling ?? {}, count > 0 ? { count, barred: sampling?.stop_token_ids ?? [] } : null);
}

/** The wire fields that requests and choices share. */
type SharedFields = { [Name in keyof Sampling]?: Sampling[Name] | undefined };

/** Fields that are absent get their neutral value. */
function toParameters(fields: SharedFields, minTokens: SamplingParameters['minTokens']): SamplingParameters {
  return {
    temperature: fields.temperature ?? plainSampling.temperature,
    topP: fields.top_p ?? plainSampling.topP,
    topK: Math.max(0, fields.top_k ?? plainSampling.topK),
    minP: fields.min_p ?? plainSampling.minP,
    repetitionPenalty: fields.repetition_penalty ?? plainSampling.repetitionPenalty,
    frequencyPenalty: fields.frequency_penalty ?? plainSampling.frequencyPenalty,
    presencePenalty: fields.presence_penalty ?? plainSampling.presencePenalty,
    logitBias: Object.entries(fields.logit_bias ?? {}).map(([token, bias]) => [Number(token), bias]),
    allowedTokens: fields.allowed_token_ids ?? plainSampling.allowedTokens,
    bannedTexts: fields.bad_words ?? plainSampling.bannedTexts,
    minTokens,
    ignoreEnd: fields.ignore_eos ?? plainSampling.ignoreEnd,
    processors: toProcessors(fields),
  };
}

type WireProcessors = Partial<Pick<Sampling, 'logits_processors' | 'engine_xargs'>>;

function toProcessors({ logits_processors, engine_xargs: extra }: WireProcessors): ProcessorCall[] {
  return (logits_processors ?? []).map((processor) => {
    const { qualname, args, kwargs } =
      typeof processor === 'string' ? { qualname: processor, args: [], kwargs: {} } : processor;
    return { name: qualname, args: args ?? [], kwargs: kwargs ?? {}, extra: extra ?? {} };
  });
}

const engineArgumentsSchema = z.record(z.string(), engineArgumentSchema);

/** All processors of a request share the same extra arguments. */
function fromProcessors(processors: readonly ProcessorCall[]): WireProcessors {
  const extra = engineArgumentsSchema.parse(processors[0]?.extra ?? {});
  return {
    logits_processors: processors.map(({ name, args, kwargs }) => ({
      qualname: name,
      args: [...args],
      kwargs: { ...kwargs },
    })),
    ...(Object.keys(extra).length === 0 ? {} : { engine_xargs: extra }),
  };
}
