import type { Choice, Logprobs, ParsedChatCompletionRequest, Sampling } from '../../../contract/index.ts';
import type { GenerationDelta } from '../../../engines/engine.ts';
import { tokenIdsHash } from '../../../language/tokenizer/tokenizer.ts';
import type { BaseModelTools } from '../base-model-tools.ts';
import type { Prompt } from '../prompt.ts';
import type { ResolvedModel } from '../resolve-model.ts';

/** What an answer tells of the sampled tokens. */
export interface TokenReport {
  logprobs: boolean;
  /** Whether entries of `logprobs` have the bytes of their token. */
  bytes: boolean;
  /**
   * Where token ids are. `choice`: in `token_ids`. `entries`: in the entries of `logprobs`, with all else that training
   * needs, since clients that put a stream together keep these and drop fields of a choice that they do not know.
   */
  ids: 'choice' | 'entries' | null;
}

/**
 * A choice of a trained model carries what training needs unless the request says otherwise: clients that train ask
 * for none of it and send the choice back whole.
 */
export function tokenReportOf(
  request: Pick<ParsedChatCompletionRequest, 'logprobs' | 'return_token_ids' | 'stream'>,
  { entity }: Pick<ResolvedModel, 'entity'>,
): TokenReport {
  const carries = entity !== null && request.return_token_ids === undefined;
  const logprobs = request.logprobs ?? carries;
  const ids = request.return_token_ids ?? carries;
  return {
    logprobs,
    bytes: request.logprobs === true,
    ids: carries && request.stream && logprobs ? 'entries' : ids ? 'choice' : null,
  };
}

/** The parts of a chat request that its reports need. */
interface ReportedChat {
  request: ParsedChatCompletionRequest;
  tools: BaseModelTools;
  prompt: Prompt;
  sampling: Sampling;
  report: TokenReport;
}

/** The log-probabilities of some tokens of a choice; `isFirst` where they are the first ones. */
export function reportLogprobs(
  chat: ReportedChat,
  tokens: GenerationDelta,
  { isFirst }: { isFirst: boolean },
): Logprobs {
  const { report, request, sampling, tools } = chat;
  const withIds = report.ids === 'entries';
  const logprobs = tools.texts.logprobs(tokens, {
    asIds: request.return_tokens_as_token_ids,
    bytes: report.bytes,
    withIds,
  });
  const first = logprobs.content?.[0];
  if (withIds && isFirst && first) first.choice = { sampling, ...promptIdsOf(chat) };
  return logprobs;
}

/** What a choice has of the sampling as a whole, once all its tokens are known. */
export function reportSampling(
  chat: ReportedChat,
  tokens: readonly number[],
): Pick<Choice, 'sampling' | 'prompt_token_ids'> {
  return {
    sampling: { ...chat.sampling, reply: tokenIdsHash(tokens) },
    ...(chat.report.ids === 'choice' ? promptIdsOf(chat) : {}),
  };
}

/** Ids of the prompt, where training may not get them again from the messages before the choice. */
function promptIdsOf({ prompt }: ReportedChat): Pick<Choice, 'prompt_token_ids'> {
  return prompt.own || prompt.retokenized ? { prompt_token_ids: prompt.tokens } : {};
}
