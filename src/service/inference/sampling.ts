import type { ParsedChatCompletionRequest, Sampling } from '../../contract/index.ts';
import type { SamplingParameters } from '../../engines/engine.ts';
import { invalidField, ServiceError } from '../errors.ts';

/** The cut-offs a request asks for; temperature defaults to 1, the distribution that training assumes. */
export function toSamplingParameters(request: ParsedChatCompletionRequest): SamplingParameters {
  return {
    temperature: request.temperature ?? 1,
    topP: request.top_p ?? 1,
    topK: Math.max(0, request.top_k ?? 0),
    minP: request.min_p ?? 0,
  };
}

/** What a choice carries so that a trainer computes log-probabilities under the distribution of the sampler. */
export function toSampling(sampling: SamplingParameters, constraintHash: string | null): Sampling {
  return {
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    constraint: constraintHash,
  };
}

export function fromSampling(sampling: Sampling | null | undefined): SamplingParameters {
  if (!sampling) return { temperature: 1, topP: 1, topK: 0, minP: 0 };
  return {
    temperature: sampling.temperature,
    topP: sampling.top_p,
    topK: Math.max(0, sampling.top_k),
    minP: sampling.min_p,
  };
}

/**
 * Seeds of the choices of a request: the request's, the next one, and so on. JSON numbers beyond 2^53 have already
 * been rounded by whoever parsed them; they stay distinct from each other here.
 */
export function seedOfChoice(seed: number | undefined, index: number): number | bigint | undefined {
  if (seed === undefined) return undefined;
  if (!Number.isInteger(seed)) throw invalidField(['seed'], 'Input should be a valid integer', seed);
  const chosen = seed + index;
  return Number.isSafeInteger(seed) && Number.isSafeInteger(chosen) ? chosen : BigInt(seed) + BigInt(index);
}

/** How many tokens a reply may have: what was asked for, or what the context leaves. */
export function toMaxTokens(
  request: ParsedChatCompletionRequest,
  promptLength: number,
  contextLength: number,
): number {
  const left = contextLength - promptLength;
  const asked = request.max_completion_tokens ?? request.max_tokens;
  if (left < 1)
    throw new ServiceError(
      400,
      'context_length_exceeded',
      `The prompt has ${promptLength} tokens and the model's context holds ${contextLength}, reply included; shorten the messages.`,
    );
  return asked === undefined ? left : Math.min(asked, left);
}
