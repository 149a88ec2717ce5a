import { z } from 'zod';
import { engineArgumentSchema, type Sampling } from '../../../contract/index.ts';
import type { ProcessorCall, SamplingParameters } from '../../../engines/engine.ts';
import { plainSampling } from '../../../learning/index.ts';

/**
 * What a choice carries so that a trainer computes log-probabilities under the distribution of the sampler: every
 * parameter that is not off, and the constraint by its hash. `fromSampling` reads it back.
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

/** The parameters that a choice was sampled with. Without any, the model's own distribution. */
export function fromSampling(sampling: Sampling | null | undefined): SamplingParameters {
  if (!sampling) return plainSampling;
  const minimum = sampling.min_tokens ?? 0;
  return {
    temperature: sampling.temperature,
    topP: sampling.top_p,
    topK: Math.max(0, sampling.top_k),
    minP: sampling.min_p,
    repetitionPenalty: sampling.repetition_penalty ?? plainSampling.repetitionPenalty,
    frequencyPenalty: sampling.frequency_penalty ?? plainSampling.frequencyPenalty,
    presencePenalty: sampling.presence_penalty ?? plainSampling.presencePenalty,
    logitBias: toBiases(sampling.logit_bias),
    allowedTokens: sampling.allowed_token_ids ?? plainSampling.allowedTokens,
    bannedTexts: sampling.bad_words ?? plainSampling.bannedTexts,
    minTokens: minimum > 0 ? { count: minimum, barred: sampling.stop_token_ids ?? [] } : null,
    ignoreEnd: sampling.ignore_eos ?? plainSampling.ignoreEnd,
    processors: toProcessors(sampling.logits_processors, sampling.engine_xargs),
  };
}

type Biases = SamplingParameters['logitBias'];

/** Biases in the order of their tokens. */
export function toBiases(biases: Readonly<Record<string, number>> | null | undefined): Biases {
  return Object.entries(biases ?? {}).map(([token, bias]): [number, number] => [Number(token), bias]);
}

type WireProcessors = Pick<Sampling, 'logits_processors' | 'engine_xargs'>;

export function toProcessors(
  processors: WireProcessors['logits_processors'],
  extra: WireProcessors['engine_xargs'],
): ProcessorCall[] {
  return (processors ?? []).map((processor) => {
    const { qualname, args, kwargs } =
      typeof processor === 'string' ? { qualname: processor, args: [], kwargs: {} } : processor;
    return { name: qualname, args: args ?? [], kwargs: kwargs ?? {}, extra: extra ?? {} };
  });
}

const engineArgumentsSchema = z.record(z.string(), engineArgumentSchema);

/** All processors of a request have the same further arguments. */
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
