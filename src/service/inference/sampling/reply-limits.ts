import { chatLimits, type ParsedChatCompletionRequest } from '../../../contract/index.ts';
import type { Stops } from '../../../language/chat/stop-strings.ts';
import { invalidField, ServiceError } from '../../errors.ts';

/** Seeds of the choices of a request: the request's, the next one, and so on. */
export function seedOfChoice(seed: number | bigint | undefined, index: number): number | bigint | undefined {
  if (seed === undefined) return undefined;
  if (typeof seed === 'bigint') return seed + BigInt(index);
  if (!Number.isInteger(seed)) throw invalidField(['seed'], 'Input should be a valid integer', seed);
  const chosen = seed + index;
  return Number.isSafeInteger(chosen) ? chosen : BigInt(seed) + BigInt(index);
}

/** How many tokens a reply may have: what was asked for, or what the context leaves. */
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

/** Refuses to report so many alternatives to tokens that the answer would be hundreds of megabytes. */
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
