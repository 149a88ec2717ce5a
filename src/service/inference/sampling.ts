import { z } from 'zod';
import {
  chatLimits,
  engineArgumentSchema,
  type ParsedChatCompletionRequest,
  type Sampling,
} from '../../contract/index.ts';
import type { ProcessorCall, SamplingParameters } from '../../engines/engine.ts';
import type { ChatFormat, Tokenizer } from '../../language/tokenizer/tokenizer.ts';
import { plainSampling } from '../../learning/index.ts';
import { invalidField } from '../errors.ts';
import type { CheckedConstraint } from './constraints.ts';
import { rangeOf, refuseForeignTokens } from './request-checks.ts';

export interface SamplingSurroundings {
  tokenizer: Tokenizer;
  format: ChatFormat;
  constraint: CheckedConstraint;
  /** Names of the available logits processors. */
  processors: readonly string[];
  /** Most tokens of the reply. */
  maxTokens: number;
}

/**
 * The sampling parameters of a request. Temperature defaults to 1, as training assumes. Throws a 422 that
 * names an invalid field.
 */
export function toSamplingParameters(
  request: ParsedChatCompletionRequest,
  surroundings: SamplingSurroundings,
): SamplingParameters {
  checkBiases(request.logit_bias, surroundings.tokenizer);
  checkAllowed(request.allowed_token_ids, surroundings);
  checkProcessors(request, surroundings.processors);
  return {
    temperature: request.temperature ?? 1,
    topP: request.top_p ?? 1,
    topK: Math.max(0, request.top_k ?? 0),
    minP: request.min_p ?? 0,
    repetitionPenalty: request.repetition_penalty ?? 1,
    frequencyPenalty: request.frequency_penalty ?? 0,
    presencePenalty: request.presence_penalty ?? 0,
    logitBias: toBiases(request.logit_bias),
    allowedTokens: request.allowed_token_ids ?? null,
    bannedTexts: request.bad_words ?? [],
    minTokens: toMinTokens(request, surroundings),
    ignoreEnd: request.ignore_eos ?? false,
    processors: toProcessors(request.logits_processors, request.engine_xargs),
  };
}

function checkBiases(biases: ParsedChatCompletionRequest['logit_bias'], { vocabularySize }: Tokenizer): void {
  const keys = Object.keys(biases ?? {});
  if (keys.length > chatLimits.biases)
    throw invalidField(
      ['logit_bias'],
      `takes at most ${chatLimits.biases} tokens, not ${keys.length}`,
      biases,
    );
  for (const key of keys)
    if (!/^(?:0|[1-9]\d*)$/.test(key) || Number(key) >= vocabularySize)
      throw invalidField(['logit_bias', key], `keys are token ids; ${rangeOf(vocabularySize)}`, key);
}

function checkAllowed(
  allowed: readonly number[] | undefined,
  { tokenizer, format, constraint }: SamplingSurroundings,
): void {
  if (!allowed) return;
  if (allowed.length > tokenizer.vocabularySize)
    throw invalidField(
      ['allowed_token_ids'],
      `has ${allowed.length} tokens, and the model has ${tokenizer.vocabularySize}; name each once`,
      allowed,
    );
  refuseForeignTokens(allowed, tokenizer.vocabularySize, ['allowed_token_ids']);
  const reachable = new Set([
    format.endToken,
    ...(constraint.allowsCalls ? [format.callToken] : []),
    ...(constraint.reasoning ? [constraint.reasoning.open, constraint.reasoning.close] : []),
  ]);
  const special = new Set(tokenizer.special.values());
  for (const [index, token] of allowed.entries())
    if (special.has(token) && !reachable.has(token))
      throw invalidField(
        ['allowed_token_ids', index],
        `${tokenizer.text(token)} is a special token that this reply cannot hold`,
        token,
      );
}

function checkProcessors(
  { logits_processors, engine_xargs }: ParsedChatCompletionRequest,
  known: readonly string[],
): void {
  const asked = logits_processors ?? [];
  for (const [index, processor] of asked.entries()) {
    const name = typeof processor === 'string' ? processor : processor.qualname;
    if (known.includes(name)) continue;
    const there = known.length === 0 ? 'there is none here' : `those there are: ${known.join(', ')}`;
    throw invalidField(
      ['logits_processors', index, ...(typeof processor === 'string' ? [] : ['qualname'])],
      `there is no logits processor ${JSON.stringify(name)}; ${there}`,
      name,
    );
  }
  const extra = Object.keys(engine_xargs ?? {});
  if (extra.length > chatLimits.engineArguments)
    throw invalidField(
      ['engine_xargs'],
      `takes at most ${chatLimits.engineArguments} arguments, not ${extra.length}`,
      engine_xargs,
    );
  if (extra.length > 0 && asked.length === 0)
    throw invalidField(
      ['engine_xargs', extra[0] ?? ''],
      'goes to the logits processors of the request, and it has none; name one in logits_processors',
      engine_xargs?.[extra[0] ?? ''],
    );
}

function toMinTokens(
  { min_tokens: count = 0, stop_token_ids: stops }: ParsedChatCompletionRequest,
  { format, maxTokens }: SamplingSurroundings,
): SamplingParameters['minTokens'] {
  if (count === 0) return null;
  if (count > maxTokens)
    throw invalidField(
      ['min_tokens'],
      `must be at most ${maxTokens}, the most tokens that this reply may have`,
      count,
    );
  return { count, barred: [...new Set([format.endToken, ...(stops ?? [])])] };
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
