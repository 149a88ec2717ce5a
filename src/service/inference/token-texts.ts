import type { Logprobs } from '../../contract/index.ts';
import type { GenerationDelta, Tokenizer } from '../../engines/engine.ts';

interface TokenText {
  token: string;
  bytes: number[];
}

/** Tokens as `logprobs` shows them. A vocabulary is small and the same tokens come again and again. */
export class TokenTexts {
  readonly #tokenizer: Tokenizer;
  readonly #known: TokenText[] = [];

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  logprobs({ tokens, logprobs, topLogprobs }: GenerationDelta): Logprobs {
    return {
      content: tokens.map((token, index) => {
        const { token: text, bytes } = this.#text(token);
        return {
          token: text,
          logprob: finite(logprobs[index] ?? 0),
          bytes,
          top_logprobs: (topLogprobs[index] ?? []).map((alternative) => {
            const shown = this.#text(alternative.token);
            return { token: shown.token, logprob: finite(alternative.logprob), bytes: shown.bytes };
          }),
        };
      }),
    };
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
