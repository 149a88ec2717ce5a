import { randomUUID } from 'node:crypto';
import type { ParsedChatCompletionRequest, Usage } from '../../contract/index.ts';
import type { Engine, Generation, GenerationDelta } from '../../engines/engine.ts';
import { invalidField } from '../errors.ts';
import type { BaseModelTools } from './base-model-tools.ts';
import type { CheckedConstraint, Constraints } from './constraints.ts';
import { toTurn } from './conversation.ts';
import { ReplyParser } from './reply-parser.ts';
import type { ModelResolver, ResolvedModel } from './resolve-model.ts';
import { seedOfChoice, toMaxTokens, toSampling, toSamplingParameters } from './sampling.ts';

export interface ChatDependencies {
  engine: Engine;
  models: ModelResolver;
  constraints: Constraints;
  tools: (baseModel: string) => BaseModelTools;
}

/** A request turned into tokens, ready to be sampled. */
export interface PreparedChat {
  id: string;
  created: number;
  request: ParsedChatCompletionRequest;
  model: ResolvedModel;
  tools: BaseModelTools;
  prompt: number[];
  constraint: CheckedConstraint;
  sampling: ReturnType<typeof toSampling>;
  choices: number;
  generate(
    index: number,
    signal: AbortSignal,
    onDelta?: (delta: GenerationDelta) => void,
  ): Promise<Generation>;
  parser(): ReplyParser;
}

export async function prepareChat(
  { engine, models, constraints, tools: toolsOf }: ChatDependencies,
  request: ParsedChatCompletionRequest,
): Promise<PreparedChat> {
  const model = await models.resolve(request.model);
  const tools = toolsOf(model.base.id);
  const constraint = await constraints.check(model.base.id, request);
  const turns = request.messages.map((message, index) => toTurn(message, ['messages', index]));
  turns.forEach(({ tokenIds }, index) => {
    refuseForeignTokens(tokenIds, model.base.vocabularySize, ['messages', index, 'token_ids']);
  });
  refuseForeignTokens(request.stop_token_ids, model.base.vocabularySize, ['stop_token_ids']);
  const { tokens: prompt } = tools.renderer.render(
    { turns, tools: request.tools },
    { addGenerationPrompt: true },
  );
  const maxTokens = toMaxTokens(request, prompt.length, model.base.contextLength);
  const sampling = toSamplingParameters(request);
  const stopStrings = toStopStrings(request.stop);
  const wantsLogprobs = request.logprobs === true;
  if (!wantsLogprobs && (request.top_logprobs ?? 0) > 0)
    throw invalidField(['top_logprobs'], 'needs logprobs: true', request.top_logprobs);
  seedOfChoice(request.seed, 0);
  return {
    id: `chatcmpl-${request.request_id ?? randomUUID()}`,
    created: Math.floor(Date.now() / 1000),
    request,
    model,
    tools,
    prompt,
    constraint,
    sampling: toSampling(sampling, constraint.hash),
    choices: request.n ?? 1,
    generate: (index, signal, onDelta) => {
      const seed = seedOfChoice(request.seed, index);
      return engine.generate(
        {
          weights: model.weights,
          prompt,
          sampling,
          ...(seed === undefined ? {} : { seed }),
          maxTokens,
          stopStrings,
          stopTokens: request.stop_token_ids ?? [],
          constraint: constraint.constraint,
          topLogprobs: wantsLogprobs ? (request.top_logprobs ?? 0) : 0,
          signal,
        },
        onDelta,
      );
    },
    parser: () =>
      new ReplyParser(tools.tokenizer, constraint.allowsCalls ? tools.format.callToken : null, {
        strings: stopStrings,
        tokens: request.stop_token_ids ?? [],
      }),
  };
}

export function toUsage(prompt: readonly number[], completionTokens: number, cachedTokens: number): Usage {
  return {
    prompt_tokens: prompt.length,
    completion_tokens: completionTokens,
    total_tokens: prompt.length + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}

export function refuseForeignTokens(
  tokens: readonly number[] | undefined,
  vocabularySize: number,
  location: (string | number)[],
): void {
  if (!tokens) return;
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index] ?? 0;
    if (token < 0 || token >= vocabularySize)
      throw invalidField(
        [...location, index],
        `token ids go from 0 to ${vocabularySize - 1} in this model's vocabulary`,
        token,
      );
  }
}

function toStopStrings(stop: string | string[] | undefined): string[] {
  if (stop === undefined) return [];
  const strings = typeof stop === 'string' ? [stop] : stop;
  if (strings.includes('')) throw invalidField(['stop'], 'a stop string cannot be empty', stop);
  return strings;
}
