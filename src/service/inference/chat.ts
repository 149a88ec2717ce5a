import { createHash, randomUUID } from 'node:crypto';
import type {
  ParsedChatCompletionRequest,
  ParsedMessage,
  PromptLogprob,
  Sampling,
  Usage,
} from '../../contract/index.ts';
import type { BaseModel, Engine, Generation, GenerationDelta } from '../../engines/engine.ts';
import { toTurn } from '../../language/chat/conversation.ts';
import { type ReplyOptions, ReplyParser } from '../../language/chat/reply-parser.ts';
import { tokenIdsHash } from '../../language/tokenizer/tokenizer.ts';
import type { Access } from '../access.ts';
import type { BaseModelTools } from './base-model-tools.ts';
import type { Constraints } from './constraints.ts';
import { type Prompt, toPrompt } from './prompt.ts';
import { type TokenReport, tokenReportOf } from './reply/token-report.ts';
import {
  checkCombinations,
  refuseForeignTokens,
  refuseLongReports,
  seedOfChoice,
  toMaxTokens,
  toStops,
} from './request-checks.ts';
import type { ModelResolver, ResolvedModel } from './resolve-model.ts';
import { toSampling, toSamplingParameters } from './sampling.ts';

export interface ChatDependencies {
  engine: Engine;
  models: ModelResolver;
  constraints: Constraints;
  tools: (baseModel: string) => BaseModelTools;
  /** Whether requests may have a priority. */
  priorityScheduling: boolean;
}

/** A request turned into tokens, ready to sample. */
export interface PreparedChat {
  id: string;
  created: number;
  fingerprint: string;
  request: ParsedChatCompletionRequest;
  model: ResolvedModel;
  tools: BaseModelTools;
  prompt: Prompt;
  /** Text that the content of every choice starts with. */
  echo: string;
  sampling: Sampling;
  report: TokenReport;
  choices: number;
  generate(
    index: number,
    signal: AbortSignal,
    onDelta?: (delta: GenerationDelta) => void,
  ): Promise<Generation>;
  /** Beam search: all choices at once, best first; null if choices are sampled. */
  search: ((signal: AbortSignal) => Promise<Generation[]>) | null;
  /** Log-probabilities of the prompt's tokens; null if not requested. */
  scorePrompt: ((signal: AbortSignal) => Promise<(PromptLogprob | null)[]>) | null;
  parser(): ReplyParser;
}

export interface ChatOrigin {
  access: Access;
  /** The request's seed with all its digits; see `exactSeed`. */
  seed: number | bigint | undefined;
  /** Aborts when the client stops waiting for the answer. */
  signal?: AbortSignal;
}

export async function prepareChat(
  { engine, models, constraints, tools: toolsOf, priorityScheduling }: ChatDependencies,
  request: ParsedChatCompletionRequest,
  { access, seed: requestSeed, signal: asking }: ChatOrigin,
): Promise<PreparedChat> {
  checkCombinations(request, { priorityScheduling });
  const model = await models.resolve(request.model, access);
  const { base, weights } = model;
  const tools = toolsOf(base.id);
  const caller = { tenant: access.tenant, signal: asking };
  const constraint = await constraints.check(base, request, caller);
  refuseForeignTokens(request.stop_token_ids, base.vocabularySize, ['stop_token_ids']);
  const prompt = await toPrompt(request, { tools, base, caller });
  const maxTokens = toMaxTokens(request, prompt.tokens.length, base.contextLength);
  refuseLongReports(request, maxTokens);
  const { tokenizer, format } = tools;
  const sampling = toSamplingParameters(request, {
    ...{ tokenizer, format, constraint, maxTokens },
    processors: engine.logitsProcessors,
  });
  const stops = toStops(request);
  seedOfChoice(requestSeed, 0);
  const choices = request.n ?? 1;
  const echo = request.echo ? echoOf(request.messages) : '';
  // Only after all checks: a refused request writes nothing to disk.
  await constraints.keep(constraint, access.entity ?? model.entity);
  const common = {
    weights,
    prompt: prompt.tokens,
    sampling,
    maxTokens,
    stopStrings: stops.strings,
    stopTokens: stops.tokens,
    constraint: constraint.constraint,
    topLogprobs: request.top_logprobs ?? 0,
    priority: request.priority ?? 0,
    cacheSalt: cacheSaltOf(access, request.cache_salt ?? null),
    tenant: access.tenant,
  };
  const reading: ReplyOptions = {
    endToken: format.endToken,
    callToken: constraint.allowsCalls ? format.callToken : null,
    reasoning: constraint.reasoning,
    stops,
    show: {
      special: request.skip_special_tokens === false,
      spaces: request.spaces_between_special_tokens !== false,
      stop: request.include_stop_str_in_output === true,
      reasoning: request.include_reasoning !== false,
    },
    echo,
  };
  const top = request.prompt_logprobs;
  return {
    id: `chatcmpl-${request.request_id ?? randomUUID()}`,
    created: Math.floor(Date.now() / 1000),
    fingerprint: fingerprintOf(engine.name, base),
    ...{ request, model, tools, prompt, echo, choices },
    sampling: {
      ...toSampling(sampling, constraint.hash),
      prompt: tokenIdsHash(prompt.tokens),
      ...(request.use_beam_search ? { beam_search: true } : {}),
      ...(prompt.own ? { own_prompt: true } : {}),
    },
    report: tokenReportOf(request, model),
    generate: (index, signal, onDelta) => {
      const seed = seedOfChoice(requestSeed, index);
      return engine.generate({ ...common, ...(seed === undefined ? {} : { seed }), signal }, onDelta);
    },
    search: request.use_beam_search
      ? (signal) =>
          engine.beamSearch({
            ...common,
            width: choices,
            lengthPenalty: request.length_penalty ?? 1,
            signal,
          })
      : null,
    scorePrompt:
      top === undefined
        ? null
        : async (signal) =>
            tools.texts.promptLogprobs(
              await engine.scorePrompt({ weights, prompt: prompt.tokens, top, signal }),
            ),
    parser: () => new ReplyParser(tokenizer, reading),
  };
}

/** The text that `echo` repeats: the content of the last message, if it is the assistant's. */
function echoOf(messages: readonly ParsedMessage[]): string {
  const index = messages.length - 1;
  const message = messages[index];
  return message?.role === 'assistant' ? toTurn(message, ['messages', index]).content : '';
}

export function toUsage(
  { prompt }: Pick<PreparedChat, 'prompt'>,
  completionTokens: number,
  cachedTokens: number | null,
): Usage {
  return {
    prompt_tokens: prompt.tokens.length,
    completion_tokens: completionTokens,
    total_tokens: prompt.tokens.length + completionTokens,
    ...(cachedTokens === null ? {} : { prompt_tokens_details: { cached_tokens: cachedTokens } }),
  };
}

/** There is only one tier; it is reported if the request names a tier. */
export function tierOf({ request }: Pick<PreparedChat, 'request'>): { service_tier?: 'default' } {
  return request.service_tier === undefined ? {} : { service_tier: 'default' };
}

/**
 * The salt of the engine's prefix cache: the request's salt within the key's entity. Entities never share
 * a prefix, and neither do different salts of one entity. Keys that see every entity share one scope.
 */
export function cacheSaltOf({ entity }: Access, salt: string | null): string | null {
  return entity === null && salt === null ? null : JSON.stringify([entity, salt]);
}

/** The `system_fingerprint`: the same for the same engine and base model, whatever the weights. */
export function fingerprintOf(engine: string, base: BaseModel): string {
  const parts = [engine, base.id, base.contextLength, base.vocabularySize, base.parameters];
  return `fp_${createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 12)}`;
}
