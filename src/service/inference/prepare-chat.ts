import { createHash, randomUUID } from 'node:crypto';
import type { ChatCompletion, Sampling } from '../../contract/index.ts';
import type { BaseModel, Caller, Engine, GenerateRequest } from '../../engines/engine.ts';
import { type ReplyOptions, tokenIdsHash } from '../../language/index.ts';
import type { Access } from '../access.ts';
import { invalidField } from '../errors.ts';
import { refuseForeignTokens } from '../validation.ts';
import type { ChatRequest } from './chat-request.ts';
import type { Constraints } from './constraints.ts';
import { type Prompt, toPrompt } from './prompt.ts';
import { toReplyOptions } from './reply-options.ts';
import type { BaseModelTools, ModelResolver, ResolvedModel } from './resolve-model.ts';
import { toReplySampling, toSampling } from './sampling.ts';
import { type TokenReport, tokenReportOf } from './token-report.ts';

/** A chat request as the engine samples it, and how its replies are read and reported. */
export interface PreparedChat {
  request: ChatRequest;
  model: ResolvedModel;
  tools: BaseModelTools;
  prompt: Prompt;
  /** What the engine gets for every choice. */
  generation: Omit<GenerateRequest, 'seed' | 'signal'>;
  reading: ReplyOptions;
  /** What each choice reports of how it was sampled. */
  sampling: Sampling;
  report: TokenReport;
  /** What the answer and each of its chunks begin with. */
  head: Pick<ChatCompletion, 'id' | 'created' | 'model' | 'system_fingerprint' | 'service_tier'>;
}

interface ChatService {
  engine: Engine;
  models: ModelResolver;
  constraints: Constraints;
  tools: (baseModel: string) => BaseModelTools;
}

/** Turns a valid request into tokens: model, constraint, prompt, sampling, and how replies are read. */
export async function prepareChat(
  { engine, models, constraints, tools: toolsOf }: ChatService,
  request: ChatRequest,
  { access, caller }: { access: Access; caller: Caller },
): Promise<PreparedChat> {
  const model = await models.resolve(request.model, access);
  const { base, weights } = model;
  const tools = toolsOf(base.id);
  const { tokenizer, format } = tools;
  const checked = mayConstrain(request) ? await constraints.check(base, request, caller) : null;
  const constraint = checked?.constraint ?? null;
  refuseForeignTokens(request.stop_token_ids, base.vocabularySize, ['stop_token_ids']);
  if (base.isRemote) refuseScheduling(request, base.id);
  const prompt = await toPrompt(request, { tools, base, caller });
  const { maxTokens, sampling } = toReplySampling(request, {
    tokenizer,
    format,
    processors: engine.logitsProcessors,
    promptLength: prompt.tokens.length,
    contextLength: base.contextLength,
  });
  const reported: Sampling = {
    ...toSampling(sampling, checked?.hash ?? null),
    prompt: tokenIdsHash(prompt.tokens),
    ...(request.use_beam_search ? { beam_search: true } : {}),
    ...(prompt.own ? { own_prompt: true } : {}),
  };
  const reading = toReplyOptions(request, { tokenizer, format, prompt, constraint });
  // Only after all checks: a refused request writes nothing to disk.
  if (checked) await constraints.keep(checked, access.entity ?? model.entity);
  return {
    request,
    model,
    tools,
    prompt,
    generation: {
      weights,
      prompt: prompt.tokens,
      sampling,
      maxTokens,
      stopStrings: reading.stops.strings,
      stopTokens: reading.stops.tokens,
      constraint,
      topLogprobs: request.top_logprobs ?? 0,
      priority: request.priority ?? 0,
      cacheSalt: cacheSaltOf(access, request.cache_salt ?? null),
      tenant: access.tenant,
    },
    reading,
    sampling: reported,
    report: tokenReportOf(request, model),
    head: {
      id: `chatcmpl-${request.request_id ?? randomUUID()}`,
      created: Math.floor(Date.now() / 1000),
      model: model.pinnedName,
      system_fingerprint: fingerprintOf(engine.name, base),
      // There is only one tier; it is reported if the request names a tier.
      ...(request.service_tier === undefined ? {} : { service_tier: 'default' }),
    },
  };
}

/** Whether the request has a field that may constrain its replies. */
const mayConstrain = (request: ChatRequest): boolean =>
  (request.tools?.length ?? 0) > 0 ||
  request.tool_choice !== undefined ||
  request.response_format !== undefined ||
  request.structured_outputs !== undefined ||
  request.reasoning_effort !== undefined;

/** Another server has a cache and a queue of its own. */
function refuseScheduling(request: ChatRequest, baseModel: string): void {
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
