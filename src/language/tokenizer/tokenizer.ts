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
