import { createHash, randomUUID } from 'node:crypto';
import type { ChatCompletion, Sampling } from '../../contract/index.ts';
import type { BaseModel, Caller, Engine, GenerateRequest } from '../../engines/engine.ts';
import type { ReplyOptions } from '../../language/index.ts';
import type { Access } from '../access.ts';
import type { ChatRequest } from './chat-request.ts';
import type { Constraints } from './constraints.ts';
import { checkForModel } from './model-checks.ts';
import { type Prompt, toPrompt } from './prompt.ts';
import { toReplyOptions } from './reply-options.ts';
import type { BaseModelTools, ModelResolver } from './resolve-model.ts';
import { toReplySampling } from './sampling.ts';
import { type TokenReport, tokenReportOf } from './token-report.ts';

/** A chat request as the engine samples it, and how its replies are read and reported. */
export interface PreparedChat {
  request: ChatRequest;
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
  priorityScheduling: boolean;
}

/** Turns a valid request into tokens: model, constraint, prompt, sampling, and how replies are read. */
export async function prepareChat(
  { engine, models, constraints, priorityScheduling }: ChatService,
  request: ChatRequest,
  { access, caller }: { access: Access; caller: Caller },
): Promise<PreparedChat> {
  const model = await models.resolve(request.model, access);
  const { base, tools, weights } = model;
  checkForModel(request, { base, tools, processors: engine.logitsProcessors, priorityScheduling });
  const checked = await constraints.check(base, request, caller);
  const constraint = checked?.constraint ?? null;
  const prompt = await toPrompt(request, { tools, base, caller });
  const { maxTokens, sampling, reported } = toReplySampling(request, {
    base,
    tools,
    prompt,
    constraintHash: checked?.hash ?? null,
  });
  const reading = toReplyOptions(request, { tools, prompt, constraint });
  // Only after all checks: a refused request writes nothing to disk.
  if (checked) await constraints.keep(checked, access.entity ?? model.entity);
  return {
    request,
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
