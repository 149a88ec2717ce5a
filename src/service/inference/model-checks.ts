import { chatLimits } from '../../contract/index.ts';
import type { BaseModel } from '../../engines/engine.ts';
import { type ChatFormat, replyTokens, type Tokenizer } from '../../language/basics.ts';
import { showValue } from '../../util/show-value.ts';
import { invalidField } from '../errors.ts';
import type { ChatRequest } from './chat-request.ts';

interface CheckedModel {
  base: BaseModel;
  tools: { tokenizer: Tokenizer; format: ChatFormat };
  /** Names of the engine's logits processors. */
  processors: readonly string[];
  priorityScheduling: boolean;
}

/** Refuses what the request's model, its engine or this service do not have. Throws a 422 that names the field. */
export function checkForModel(request: ChatRequest, model: CheckedModel): void {
  const { base, tools, processors, priorityScheduling } = model;
  checkScheduling(request, base, priorityScheduling);
  checkTools(request, tools.format, base.id);
  checkProcessors(request, processors);
  for (const [index, message] of request.messages.entries())
    if ('token_ids' in message)
      refuseForeignTokens(message.token_ids, base.vocabularySize, ['messages', index, 'token_ids']);
  refuseForeignTokens(request.stop_token_ids, base.vocabularySize, ['stop_token_ids']);
  checkAllowedTokens(request.allowed_token_ids, tools);
  checkBiases(request.logit_bias, base);
}

/** Another server has a cache and a queue of its own. */
function checkScheduling(request: ChatRequest, base: BaseModel, priorityScheduling: boolean): void {
  const { cache_salt: salt, priority = 0 } = request;
  if (priority !== 0 && !priorityScheduling)
    throw invalidField(
      ['priority'],
      'must be 0, because this service does not schedule by priority; its operator can turn that on',
      priority,
    );
  const refused = salt !== undefined ? 'cache_salt' : priority !== 0 ? 'priority' : null;
  if (!base.isRemote || refused === null) return;
  const message = `does not reach the training server that samples ${base.id}; leave it out`;
  throw invalidField([refused], message, request[refused]);
}

/** A template that never looks at tools would leave them out in silence, and calls that are not read would be text. */
export function checkTools(
  {
    tools,
    tool_choice: choice,
    chat_template: own,
  }: Pick<ChatRequest, 'tools' | 'tool_choice'> & { chat_template?: string | undefined },
  { template, toolTemplate, unreadCall }: ChatFormat,
  baseModel: string,
): void {
  if (!tools?.length || choice === 'none' || own !== undefined) return;
  const refuse = (why: string) =>
    invalidField(
      ['tools'],
      `cannot be given to ${baseModel}, ${why}`,
      tools.map(({ function: { name } }) => name),
    );
  if (unreadCall !== undefined)
    throw refuse(
      `whose chat template writes calls in a way that is not read here, as in ${showValue(unreadCall)}; leave them out, or serve the model with another template (--chat-template hermes), or with --tool-calls none, which leaves its calls in the text`,
    );
  if (!/\btools\b/.test(template + (toolTemplate ?? '')))
    throw refuse(
      'whose chat template shows no tools to the model; leave them out, send a chat_template that does, or serve the model with one (--chat-template hermes)',
    );
}

function checkProcessors({ logits_processors, engine_xargs }: ChatRequest, known: readonly string[]): void {
  const requested = logits_processors ?? [];
  for (const [index, processor] of requested.entries()) {
    const name = typeof processor === 'string' ? processor : processor.qualname;
    if (known.includes(name)) continue;
    const available = known.length === 0 ? 'none is configured' : `available: ${known.join(', ')}`;
    throw invalidField(
      ['logits_processors', index, ...(typeof processor === 'string' ? [] : ['qualname'])],
      `the logits processor ${JSON.stringify(name)} does not exist; ${available}`,
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
  if (extra.length > 0 && requested.length === 0)
    throw invalidField(
      ['engine_xargs', extra[0] ?? ''],
      'requires a logits processor; name one in logits_processors',
      engine_xargs?.[extra[0] ?? ''],
    );
}

function checkAllowedTokens(
  allowed: ChatRequest['allowed_token_ids'],
  { tokenizer, format }: CheckedModel['tools'],
): void {
  if (!allowed) return;
  if (allowed.length > tokenizer.vocabularySize)
    throw invalidField(
      ['allowed_token_ids'],
      `has ${allowed.length} ids for a vocabulary of ${tokenizer.vocabularySize}; list each once`,
      allowed,
    );
  refuseForeignTokens(allowed, tokenizer.vocabularySize, ['allowed_token_ids']);
  const reachable = new Set(replyTokens(format));
  const special = new Set(tokenizer.special.values());
  for (const [index, token] of allowed.entries())
    if (special.has(token) && !reachable.has(token))
      throw invalidField(
        ['allowed_token_ids', index],
        `${tokenizer.text(token)} is a special token that cannot occur in this reply`,
        token,
      );
}

function checkBiases(biases: ChatRequest['logit_bias'], { vocabularySize }: BaseModel): void {
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

/** Refuses token ids outside the vocabulary, naming their location. */
export function refuseForeignTokens(
  tokens: readonly number[] | undefined,
  vocabularySize: number,
  location: (string | number)[],
): void {
  const index = tokens?.findIndex((token) => token < 0 || token >= vocabularySize) ?? -1;
  if (index !== -1) throw invalidField([...location, index], rangeOf(vocabularySize), tokens?.[index]);
}

export const rangeOf = (vocabularySize: number) =>
  `token ids go from 0 to ${vocabularySize - 1} in this model's vocabulary`;
