import type { SamplingParameters } from '../../engine.ts';
import { BannedTexts } from './banned-texts.ts';

/** Where a reply stands: its tokens are those of the sequence from `start` to `end`, and the next one is asked for. */
export interface Place {
  /** Prompt and reply, and perhaps more. */
  tokens: readonly number[];
  /** Where the reply begins. */
  start: number;
  end: number;
  /** Tokens that the reply's constraint allows next, ascending; null where it has none. */
  allowed: Int32Array | null;
}

/** What rules of legal tokens need to know of the model's text. */
export interface TextTokens {
  endToken: number;
  /** Tokens that a reply without a constraint may hold, ascending. */
  unconstrained: Int32Array;
  /** The bytes of each token, one character each. */
  bytes: readonly string[];
}

/** The rules of `SamplingParameters` that say which tokens may come at all. */
export class LegalTokens {
  readonly #text: TextTokens;
  readonly #allowed: ReadonlySet<number> | null;
  readonly #minimum: number;
  readonly #barred: ReadonlySet<number>;
  readonly #ignoreEnd: boolean;
  readonly #banned: BannedTexts | null;
  readonly #off: boolean;

  constructor({ allowedTokens, minTokens, ignoreEnd, bannedTexts }: SamplingParameters, text: TextTokens) {
    this.#text = text;
    this.#allowed = allowedTokens && new Set(allowedTokens);
    this.#minimum = minTokens?.count ?? 0;
    this.#barred = new Set(minTokens?.barred);
    this.#ignoreEnd = ignoreEnd;
    this.#banned = bannedTexts.length > 0 ? new BannedTexts(bannedTexts, text.bytes) : null;
    this.#off = !allowedTokens && !minTokens && !ignoreEnd && !this.#banned;
  }

  /** Ids, ascending. Not to be changed. */
  at({ tokens, start, end, allowed }: Place): Int32Array {
    let legal = allowed ?? this.#text.unconstrained;
    if (this.#off) return legal;
    const only = this.#allowed;
    if (only) legal = unlessNone(legal, (token) => only.has(token));
    if (end - start < this.#minimum) legal = unlessNone(legal, (token) => !this.#barred.has(token));
    if (this.#ignoreEnd && allowed) legal = unlessNone(legal, (token) => token !== this.#text.endToken);
    if (this.#banned) legal = unlessNone(legal, this.#banned.after(tokens, start, end));
    return legal;
  }
}

/** What passes; all of it where nothing does. */
function unlessNone(tokens: Int32Array, passes: (token: number) => boolean): Int32Array {
  const left = tokens.filter(passes);
  return left.length > 0 ? left : tokens;
}
