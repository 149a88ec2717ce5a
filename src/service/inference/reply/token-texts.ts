import type { Logprobs, PromptLogprob } from '../../../contract/index.ts';
import type { GenerationDelta, ScoredToken } from '../../../engines/engine.ts';
import type { Tokenizer } from '../../../language/tokenizer/tokenizer.ts';

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
