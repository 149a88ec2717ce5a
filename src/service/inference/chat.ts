import { createHash, randomUUID } from 'node:crypto';
import {
  chatLimits,
  type ParsedChatCompletionRequest,
  type ParsedMessage,
  type Usage,
} from '../../contract/index.ts';
import type { BaseModel, Engine, GenerationDelta } from '../../engines/engine.ts';
import {
  type Constraint,
  endsInReasoning,
  hasContentGrammar,
  type ReplyFormat,
  type ReplyOptions,
  ReplyParser,
  tokenIdsHash,
  toTurn,
} from '../../language/index.ts';
import type { Access } from '../access.ts';
import { invalidField } from '../errors.ts';
import { refuseForeignTokens } from '../validation.ts';
import type { Constraints } from './constraints.ts';
import { toPrompt } from './prompt.ts';
import type { BaseModelTools, ModelResolver } from './resolve-model.ts';
import { toMaxTokens, toSampling, toSamplingParameters } from './sampling.ts';
import { tokenReportOf } from './token-report.ts';

interface ChatService {
  engine: Engine;
  models: ModelResolver;
  constraints: Constraints;
  tools: (baseModel: string) => BaseModelTools;
}

/** A request turned into tokens, ready to sample. */
export type PreparedChat = Awaited<ReturnType<typeof prepareChat>>;

interface ChatOrigin {
  access: Access;
  /** The request's seed with all its digits. */
  seed: number | bigint | undefined;
  /** Aborts when the client stops waiting for the answer. */
  signal: AbortSignal;
}

/** Turns a valid request into tokens: model, constraint, prompt, sampling, and how the reply is read. */
export async function prepareChat(
  { engine, models, constraints, tools: toolsOf }: ChatService,
  request: ParsedChatCompletionRequest,
  { access, seed: requestSeed, signal: whileWaiting }: ChatOrigin,
) {
  const model = await models.resolve(request.model, access);
  const { base, weights } = model;
  const tools = toolsOf(base.id);
  const { tokenizer, format } = tools;
  const caller = { tenant: access.tenant, signal: whileWaiting };
  const constraint = mayConstrain(request) ? await constraints.check(base, request, caller) : null;
  refuseForeignTokens(request.stop_token_ids, base.vocabularySize, ['stop_token_ids']);
  if (base.isRemote) refuseScheduling(request, base.id);
  const prompt = await toPrompt(request, { tools, base, caller });
  const maxTokens = toMaxTokens(request, prompt.tokens.length, base.contextLength);
  refuseLongReports(request, maxTokens);
  const processors = engine.logitsProcessors;
  const sampling = toSamplingParameters(request, { tokenizer, format, maxTokens, processors });
  const { stop, stop_token_ids: stopTokens = [], n: choices = 1, prompt_logprobs: top } = request;
  const stopStrings = typeof stop === 'string' ? [stop] : (stop ?? []);
  const ends = [...stopTokens, ...(sampling.ignoreEnd ? [] : format.otherEndTokens)];
  const echo = request.echo ? echoOf(request.messages) : '';
  // Only after all checks: a refused request writes nothing to disk.
  if (constraint) await constraints.keep(constraint, access.entity ?? model.entity);
  const common = {
    weights,
    prompt: prompt.tokens,
    sampling,
    maxTokens,
    stopStrings,
    stopTokens: ends,
    constraint: constraint?.constraint ?? null,
    topLogprobs: request.top_logprobs ?? 0,
    priority: request.priority ?? 0,
    cacheSalt: cacheSaltOf(access, request.cache_salt ?? null),
    tenant: access.tenant,
  };
  const reading: ReplyOptions = {
    endToken: format.endToken,
    format: replyFormatOf(request, {
      tools,
      prompt: prompt.tokens,
      constraint: constraint?.constraint ?? null,
    }),
    stops: { strings: stopStrings, tokens: ends },
    show: {
      special: request.skip_special_tokens === false,
      spaces: request.spaces_between_special_tokens !== false,
      stop: request.include_stop_str_in_output === true,
      reasoning: request.include_reasoning !== false,
    },
    echo,
  };
  return {
    id: `chatcmpl-${request.request_id ?? randomUUID()}`,
    created: Math.floor(Date.now() / 1000),
    fingerprint: fingerprintOf(engine.name, base),
    request,
    model,
    tools,
    prompt,
    /** Text that the content of every choice starts with. */
    echo,
    choices,
    /** What each choice reports of how it was sampled. */
    sampling: {
      ...toSampling(sampling, constraint?.hash ?? null),
      prompt: tokenIdsHash(prompt.tokens),
      ...(request.use_beam_search ? { beam_search: true } : {}),
      ...(prompt.own ? { own_prompt: true } : {}),
    },
    report: tokenReportOf(request, model),
    generate: (index: number, signal: AbortSignal, onDelta?: (delta: GenerationDelta) => void) => {
      const seed = seedOfChoice(requestSeed, index);
      return engine.generate({ ...common, ...(seed === undefined ? {} : { seed }), signal }, onDelta);
    },
    /** Beam search: all choices at once, best first; null if choices are sampled. */
    search: request.use_beam_search
      ? (signal: AbortSignal) => {
          const lengthPenalty = request.length_penalty ?? 1;
          return engine.beamSearch({ ...common, width: choices, lengthPenalty, signal });
        }
      : null,
    /** Log-probabilities of the prompt's tokens; null if not requested. */
    scorePrompt:
      top === undefined
        ? null
        : async (signal: AbortSignal) =>
            tools.texts.promptLogprobs(
              await engine.scorePrompt({ weights, prompt: prompt.tokens, top, signal }),
            ),
    parser: () => new ReplyParser(tokenizer, reading),
  };
}

/** How the reasoning and the calls of a reply are written; null if it has neither. */
function replyFormatOf(
  { tools, tool_choice: choice, function_call: older }: ParsedChatCompletionRequest,
  {
    tools: { format, tokenizer },
    prompt,
    constraint,
  }: {
    tools: Pick<BaseModelTools, 'format' | 'tokenizer'>;
    prompt: readonly number[];
    constraint: Constraint | null;
  },
): ReplyFormat | null {
  const mayCall = (tools?.length ?? 0) > 0 && (choice ?? older) !== 'none';
  const calls = mayCall ? format.calls : null;
  const reasoning = format.reasoning && {
    ...format.reasoning,
    opened: endsInReasoning(prompt, format.reasoning, tokenizer),
  };
  const callsFirst = hasContentGrammar(constraint);
  return calls || reasoning ? { calls, callsFirst, reasoning } : null;
}

/** Whether the request has a field that may constrain its replies. */
const mayConstrain = (request: ParsedChatCompletionRequest): boolean =>
  (request.tools?.length ?? 0) > 0 ||
  request.tool_choice !== undefined ||
  request.response_format !== undefined ||
  request.structured_outputs !== undefined ||
  request.reasoning_effort !== undefined;

/** Refuses so many alternatives per token that the answer would be hundreds of megabytes. */
function refuseLongReports(
  { n = 1, top_logprobs: top = 0 }: Pick<ParsedChatCompletionRequest, 'n' | 'top_logprobs'>,
  maxTokens: number,
): void {
  const reported = n * maxTokens * (1 + top);
  if (top === 0 || reported <= chatLimits.reported) return;
  throw invalidField(
    ['top_logprobs'],
    `of ${top}, for ${n} choices of up to ${maxTokens} tokens, could report ${reported} log-probabilities; the limit is ${chatLimits.reported}. Request fewer alternatives, choices or max_completion_tokens`,
    top,
  );
}

/** The seed of a choice: the request's seed plus the index of the choice. */
function seedOfChoice(seed: number | bigint | undefined, index: number): number | bigint | undefined {
  if (seed === undefined) return undefined;
  const chosen = BigInt(seed) + BigInt(index);
  return Number.isSafeInteger(Number(chosen)) ? Number(chosen) : chosen;
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

/** Another server has a cache and a queue of its own. */
function refuseScheduling(request: ParsedChatCompletionRequest, baseModel: string): void {
  const { cache_salt: salt, priority = 0 } = request;
  const refused = salt !== undefined ? 'cache_salt' : priority !== 0 ? 'priority' : null;
  if (refused === null) return;
  const message = `does not reach the training server that samples ${baseModel}; leave it out`;
  throw invalidField([refused], message, request[refused]);
}

/**
 * The salt of the engine's prefix cache: the request's salt within the key's entity. Entities never share
 * a prefix, and neither do different salts of one entity. Keys that see every entity share one scope.
 */
function cacheSaltOf({ entity }: Access, salt: string | null): string | null {
  return entity === null && salt === null ? null : JSON.stringify([entity, salt]);
}

const fingerprints = new WeakMap<BaseModel, string>();

/** The `system_fingerprint`: the same for the same engine and base model, whatever the weights. */
function fingerprintOf(engine: string, base: BaseModel): string {
  const known = fingerprints.get(base);
  if (known) return known;
  const parts = [engine, base.id, base.contextLength, base.vocabularySize, base.parameters];
  const fingerprint = `fp_${createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 12)}`;
  fingerprints.set(base, fingerprint);
  return fingerprint;
}
