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
