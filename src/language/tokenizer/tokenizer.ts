import crypto from 'node:crypto';

/** Text to token ids and back. Special tokens never come out of `encode`: text cannot forge a role or an end. */
export interface Tokenizer {
  readonly vocabularySize: number;
  /** Special tokens by their text, such as `<|end|>`. */
  readonly special: ReadonlyMap<string, number>;
  encode(text: string): number[];
  /** Bytes that are no valid UTF-8 become U+FFFD; special tokens decode to nothing. */
  decode(tokens: readonly number[]): string;
  /** The bytes of one token; empty for a special token. */
  bytes(token: number): Uint8Array;
  /** A token as `logprobs` shows it: its text, or the text of a special token. */
  text(token: number): string;
}

/** How a base model writes conversations. */
export interface ChatFormat {
  /**
   * Jinja source over `messages`, `tools`, `add_generation_prompt`, `documents`, `reasoning_effort` and the texts of
   * two special tokens, `bos_token` and `eos_token`.
   */
  template: string;
  /** What the tokenizer's own special tokens begin a sequence with, on top of the template's; null: nothing. */
  beginToken: number | null;
  /** Sampled at the end of every reply. */
  endToken: number;
  /** Sampled before each tool call, which is then written `name{"argument":"value"}`. */
  callToken: number;
  /** Special tokens around the reasoning that a reply may begin with; null where the model knows none. */
  reasoning: { open: number; close: number } | null;
}

/** Names a prompt or a reply by its token ids, so that training can tell whether it has the ones that were sampled. */
export function tokenIdsHash(tokens: readonly number[]): string {
  return `sha256-${crypto.hash('sha256', Int32Array.from(tokens), 'hex').slice(0, 32)}`;
}
