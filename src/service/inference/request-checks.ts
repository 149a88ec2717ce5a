import { chatLimits, type ParsedChatCompletionRequest } from '../../contract/index.ts';
import type { Stops } from '../../language/chat/stop-strings.ts';
import { invalidField, ServiceError } from '../errors.ts';
import { MemorySource } from '../json/byte-source.ts';
import { memberSource } from '../json/parse.ts';

/** Refuses fields that contradict the rest of the request or that this service does not support. */
export function checkCombinations(
  request: ParsedChatCompletionRequest,
  { priorityScheduling }: { priorityScheduling: boolean },
): void {
  if ((request.top_logprobs ?? 0) > 0 && request.logprobs !== true)
    throw invalidField(['top_logprobs'], 'needs logprobs: true', request.top_logprobs);
  // Options that are all false count as absent: clients send an empty object whatever `stream` is.
  if (Object.values(request.stream_options ?? {}).includes(true) && request.stream !== true)
    throw invalidField(['stream_options'], 'needs stream: true', request.stream_options);
  if ((request.length_penalty ?? 1) !== 1 && !request.use_beam_search)
    throw invalidField(['length_penalty'], 'needs use_beam_search: true', request.length_penalty);
  if ((request.priority ?? 0) !== 0 && !priorityScheduling)
    throw invalidField(
      ['priority'],
      'must be 0: this service does not schedule by priority; its operator can turn that on',
      request.priority,
    );
  if (request.function_call && request.tool_choice !== undefined && request.tool_choice !== 'none')
    throw invalidField(
      ['function_call'],
      `"${request.function_call}" is the older form of tool_choice, which asks for something else; send tool_choice alone`,
      request.function_call,
    );
}

/** The seed of a choice: the request's seed plus the index of the choice. */
export function seedOfChoice(seed: number | bigint | undefined, index: number): number | bigint | undefined {
  if (seed === undefined) return undefined;
  if (typeof seed === 'bigint') return seed + BigInt(index);
  if (!Number.isInteger(seed)) throw invalidField(['seed'], 'Input should be a valid integer', seed);
  const chosen = seed + index;
  return Number.isSafeInteger(chosen) ? chosen : BigInt(seed) + BigInt(index);
}

/** The token limit of a reply: the requested one, at most what the context leaves. */
export function toMaxTokens(
  request: Pick<ParsedChatCompletionRequest, 'max_completion_tokens' | 'max_tokens'>,
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

/** Refuses so many alternatives per token that the answer would be hundreds of megabytes. */
export function refuseLongReports(
  { n = 1, top_logprobs: top = 0 }: Pick<ParsedChatCompletionRequest, 'n' | 'top_logprobs'>,
  maxTokens: number,
): void {
  const reported = n * maxTokens * (1 + top);
  if (top === 0 || reported <= chatLimits.reported) return;
  throw invalidField(
    ['top_logprobs'],
    `of ${top}, for ${n} choices of up to ${maxTokens} tokens, could report ${reported} log-probabilities, and ${chatLimits.reported} is the most; ask for fewer alternatives, choices or max_completion_tokens`,
    top,
  );
}

export function toStops({
  stop,
  stop_token_ids: tokens,
}: Pick<ParsedChatCompletionRequest, 'stop' | 'stop_token_ids'>): Stops {
  return { strings: typeof stop === 'string' ? [stop] : (stop ?? []), tokens: tokens ?? [] };
}

/** Refuses token ids outside the vocabulary, naming their location. */
export function refuseForeignTokens(
  tokens: readonly number[] | undefined,
  vocabularySize: number,
  location: (string | number)[],
): void {
  if (!tokens) return;
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index] ?? 0;
    if (token < 0 || token >= vocabularySize)
      throw invalidField([...location, index], rangeOf(vocabularySize), token);
  }
}

export const rangeOf = (vocabularySize: number) =>
  `token ids go from 0 to ${vocabularySize - 1} in this model's vocabulary`;

/**
 * The request's seed with all its digits. JavaScript numbers are exact only up to 2^53, so `parsed` may be
 * rounded, and the adjacent seeds of a group of samples would become equal.
 */
export async function exactSeed(
  body: Buffer,
  parsed: number | undefined,
): Promise<number | bigint | undefined> {
  if (parsed === undefined || Number.isSafeInteger(parsed) || !Number.isInteger(parsed)) return parsed;
  const source = (await memberSource(new MemorySource(body), 'seed')) ?? '';
  return BigInt(/^-?\d{1,40}$/.test(source) ? source : parsed);
}
