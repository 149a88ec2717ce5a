import {
  chatFieldAliases,
  compiledChatRequestSchema,
  type ParsedChatCompletionRequest,
  refusedChatFields,
} from '../../contract/index.ts';
import { JsonNumber, parseExactJson } from '../../util/exact-json.ts';
import { invalidField } from '../errors.ts';
import { type TextKind, withoutMark } from '../json/read-text.ts';
import { validateBody } from '../validation.ts';

/** A valid chat request. Its seed has all its digits. */
export type ChatRequest = Omit<ParsedChatCompletionRequest, 'seed'> & { seed?: number | bigint | undefined };

/** The body of a chat request: all that can be said of it without its model. */
export const chatText: TextKind<ChatRequest> = {
  name: 'chat',
  validate(value, content) {
    const others = { aliases: chatFieldAliases, refused: refusedChatFields };
    const request = validateBody(compiledChatRequestSchema(), value, others);
    checkCombinations(request);
    const { seed } = request;
    if (seed === undefined || Number.isSafeInteger(seed)) return request;
    return { ...request, seed: exactSeed(content, seed) };
  },
};

/** Refuses fields that contradict the rest of the request. */
function checkCombinations(request: ParsedChatCompletionRequest): void {
  if ((request.top_logprobs ?? 0) > 0 && request.logprobs !== true)
    throw invalidField(['top_logprobs'], 'needs logprobs: true', request.top_logprobs);
  if (request.return_token_logprobs && request.logprobs)
    throw invalidField(['return_token_logprobs'], 'is another form of logprobs; send only one of them', true);
  if (request.return_token_logprobs && request.return_token_ids === false)
    throw invalidField(['return_token_ids'], 'must not be false with return_token_logprobs', false);
  // Options that are all false count as absent: clients send an empty object whatever `stream` is.
  if (Object.values(request.stream_options ?? {}).includes(true) && request.stream !== true)
    throw invalidField(['stream_options'], 'needs stream: true', request.stream_options);
  if ((request.length_penalty ?? 1) !== 1 && !request.use_beam_search)
    throw invalidField(['length_penalty'], 'needs use_beam_search: true', request.length_penalty);
  if (request.function_call && request.tool_choice !== undefined && request.tool_choice !== 'none')
    throw invalidField(
      ['function_call'],
      `"${request.function_call}" is the older form of tool_choice, which has another value; send only tool_choice`,
      request.function_call,
    );
}

/**
 * A seed with all its digits. JavaScript numbers are exact only up to 2^53, so `parsed` is rounded, and the adjacent
 * seeds of a group of samples would become equal.
 */
function exactSeed(content: Buffer, parsed: number): bigint {
  const body = parseExactJson(withoutMark(content).toString('utf8'));
  const seed = body instanceof Map ? body.get('seed') : null;
  const source = seed instanceof JsonNumber ? seed.source : '';
  return BigInt(/^-?\d{1,40}$/.test(source) ? source : parsed);
}
