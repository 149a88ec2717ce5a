import type { Choice, Logprobs, PromptLogprob, Sampling, Usage } from '../../contract/index.ts';
import type { Generation, GenerationDelta, ScoredToken } from '../../engines/engine.ts';
import { type Tokenizer, tokenIdsHash } from '../../language/index.ts';
import type { ChatRequest } from './chat-request.ts';

/** What an answer reports about the sampled tokens. */
export interface TokenReport {
  /** Whether log-probabilities and texts are reported as lists beside `token_ids`, in place of `logprobs`. */
  lists: boolean;
  logprobs: boolean;
  /**
   * Where token ids are reported. `choice`: in `token_ids`. `entries`: in the entries of `logprobs`, with
   * everything else that training needs: clients that assemble a stream keep these entries but drop
   * unknown fields of a choice.
   */
  ids: 'choice' | 'entries' | null;
}

/**
 * A choice of a trained model reports what training needs unless the request says otherwise: training
 * clients do not request it and send the whole choice back.
 */
export function tokenReportOf(
  request: Pick<ChatRequest, 'logprobs' | 'return_token_ids' | 'return_token_logprobs' | 'stream'>,
  { entity }: { entity: string | null },
): TokenReport {
  const carries = entity !== null && request.return_token_ids === undefined;
  const lists = request.return_token_logprobs ?? false;
  const logprobs = lists ? false : (request.logprobs ?? carries);
  const ids = lists || (request.return_token_ids ?? carries);
  return {
    lists,
    logprobs,
    ids: carries && request.stream && logprobs ? 'entries' : ids ? 'choice' : null,
  };
}

/** The parts of a chat request that reports need. */
interface ReportedChat {
  request: ChatRequest;
  tools: { texts: TokenTexts };
  prompt: { tokens: number[] };
  sampling: Sampling;
  report: TokenReport;
}

/** Some tokens of a choice, in the form of the request. `isFirst`: they are the first of the choice. */
export function reportTokens(
  chat: ReportedChat,
  tokens: GenerationDelta,
  { isFirst }: { isFirst: boolean },
): Pick<Choice, 'logprobs' | 'token_ids' | 'token_logprobs' | 'token_texts'> {
  const { report, tools } = chat;
  return {
    ...(report.logprobs ? { logprobs: reportLogprobs(chat, tokens, { isFirst }) } : {}),
    ...(report.ids === 'choice' ? { token_ids: tokens.tokens } : {}),
    ...(report.lists ? tools.texts.lists(tokens) : {}),
  };
}

/** The log-probabilities of some tokens of a choice. `isFirst`: they are the first of the choice. */
function reportLogprobs(
  chat: ReportedChat,
  tokens: GenerationDelta,
  { isFirst }: { isFirst: boolean },
): Logprobs {
  const { report, request, sampling, tools } = chat;
  const withIds = report.ids === 'entries';
  const logprobs = tools.texts.logprobs(tokens, {
    asIds: request.return_tokens_as_token_ids,
    withIds,
  });
  const first = logprobs.content?.[0];
  if (withIds && isFirst && first) first.choice = { sampling, ...promptIdsOf(chat) };
  return logprobs;
}

/** The sampling settings of a choice and a hash of all its tokens. */
export function reportSampling(
  chat: ReportedChat,
  tokens: readonly number[],
): Pick<Choice, 'sampling' | 'prompt_token_ids'> {
  return {
    sampling: { ...chat.sampling, reply: tokenIdsHash(tokens) },
    ...(chat.report.ids === 'choice' ? promptIdsOf(chat) : {}),
  };
}

/** The stop token or stop string that ended a choice. */
export const reportStop = ({ stop }: Generation): Pick<Choice, 'stop_reason' | 'stop_string'> =>
  typeof stop === 'string' ? { stop_reason: null, stop_string: stop } : { stop_reason: stop };

/** Ids of the prompt, if training may be unable to render them again from the messages. */
function promptIdsOf({ prompt }: ReportedChat): Pick<Choice, 'prompt_token_ids'> {
  return { prompt_token_ids: prompt.tokens };
}

/** `cachedTokens`: null if not known yet. */
export function toUsage(
  { prompt }: Pick<ReportedChat, 'prompt'>,
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

interface TokenText {
  token: string;
  bytes: number[];
}

interface LogprobsForm {
  asIds?: boolean | undefined;
  withIds: boolean;
}

/** Formats tokens for `logprobs`. Texts are cached: a vocabulary is small and tokens repeat. */
export class TokenTexts {
  readonly #tokenizer: Tokenizer;
  readonly #known: TokenText[] = [];

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /**
   * - `asIds`: writes tokens as `token_id:<id>`, which distinguishes tokens with equal text.
   * - `withIds`: entries include the id of their token.
   */
  logprobs(
    { tokens, logprobs, topLogprobs }: GenerationDelta,
    { asIds = false, withIds }: LogprobsForm,
  ): Logprobs {
    const show = (token: number): TokenText => {
      const { token: text, bytes } = this.#text(token);
      return { token: asIds ? `token_id:${token}` : text, bytes };
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

  /** The log-probabilities and texts of tokens as lists. */
  lists({ tokens, logprobs }: GenerationDelta): { token_logprobs: number[]; token_texts: string[] } {
    return {
      token_logprobs: tokens.map((_, index) => finite(logprobs[index] ?? 0)),
      token_texts: tokens.map((token) => this.#text(token).token),
    };
  }

  /** Log-probabilities of the prompt's tokens in the format of vLLM. */
  promptLogprobs(scored: readonly (ScoredToken | null)[]): (PromptLogprob | null)[] {
    return scored.map((scoredToken) => {
      if (!scoredToken) return null;
      const entries = scoredToken.top.map(({ token, logprob }, index): [string, PromptLogprob[string]] => [
        String(token),
        { logprob: finite(logprob), rank: index + 1, decoded_token: this.#text(token).token },
      ]);
      const own = {
        logprob: finite(scoredToken.logprob),
        rank: scoredToken.rank,
        decoded_token: this.#text(scoredToken.token).token,
      };
      return { ...Object.fromEntries(entries), [String(scoredToken.token)]: own };
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

/** JSON has no infinity; vLLM too writes this for a probability of 0. */
const finite = (logprob: number) => (logprob === Number.NEGATIVE_INFINITY ? -9999 : logprob);
