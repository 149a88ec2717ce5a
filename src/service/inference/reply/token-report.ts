import type {
  Choice,
  Logprobs,
  ParsedChatCompletionRequest,
  PromptLogprob,
  Sampling,
} from '../../../contract/index.ts';
import type { GenerationDelta, ScoredToken } from '../../../engines/engine.ts';
import type { Tokenizer } from '../../../language/tokenizer/tokenizer.ts';
import { tokenIdsHash } from '../../../language/tokenizer/tokenizer.ts';
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
  tools: { texts: TokenTexts };
  prompt: { tokens: number[]; own: boolean; retokenized: boolean };
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

interface TokenText {
  token: string;
  bytes: number[];
}

interface LogprobsForm {
  asIds?: boolean | undefined;
  bytes: boolean;
  withIds: boolean;
}

/** Tokens as `logprobs` shows them. A vocabulary is small and the same tokens come again and again. */
export class TokenTexts {
  readonly #tokenizer: Tokenizer;
  readonly #known: TokenText[] = [];

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /**
   * `asIds`: tokens are written `token_id:<id>`, which tells those apart whose text is the same. `bytes`: entries have
   * the bytes of their token. `withIds`: entries have the id of their token.
   */
  logprobs(
    { tokens, logprobs, topLogprobs }: GenerationDelta,
    { asIds = false, bytes: withBytes, withIds }: LogprobsForm,
  ): Logprobs {
    const show = (token: number): { token: string; bytes: number[] | null } => {
      const { token: text, bytes } = this.#text(token);
      return { token: asIds ? `token_id:${token}` : text, bytes: withBytes ? bytes : null };
    };
    return {
      content: tokens.map((token, index) => {
        const { token: text, bytes } = show(token);
        return {
          token: text,
          logprob: finite(logprobs[index] ?? 0),
          bytes,
          ...(withIds ? { token_id: token } : {}),
          top_logprobs: (topLogprobs[index] ?? []).map((alternative) => {
            const shown = show(alternative.token);
            return { token: shown.token, logprob: finite(alternative.logprob), bytes: shown.bytes };
          }),
        };
      }),
    };
  }

  /** What a prompt's tokens are worth, in the form that vLLM gives it. */
  promptLogprobs(scored: readonly (ScoredToken | null)[]): (PromptLogprob | null)[] {
    return scored.map((place) => {
      if (!place) return null;
      const entries = place.top.map(({ token, logprob }, index): [string, PromptLogprob[string]] => [
        String(token),
        { logprob: finite(logprob), rank: index + 1, decoded_token: this.#text(token).token },
      ]);
      const own = {
        logprob: finite(place.logprob),
        rank: place.rank,
        decoded_token: this.#text(place.token).token,
      };
      return { ...Object.fromEntries(entries), [String(place.token)]: own };
    });
  }

  #text(token: number): TokenText {
    let known = this.#known[token];
    if (!known) {
      known = { token: this.#tokenizer.text(token), bytes: [...this.#tokenizer.bytes(token)] };
      this.#known[token] = known;
    }
    return known;
  }
}

/** JSON has no infinity; deployed services write this for a probability of 0. */
const finite = (logprob: number) => (logprob === Number.NEGATIVE_INFINITY ? -9999 : logprob);
