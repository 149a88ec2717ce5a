import crypto from 'node:crypto';

/**
 * Converts text to token ids and back. `encode` never returns added tokens, so text cannot forge a role, an end or a
 * tag: only a chat template and the model itself write them.
 */
export interface Tokenizer {
  /** Number of ids. A model may have more, which pad its matrices and are never legal. */
  readonly vocabularySize: number;
  /**
   * Added tokens by their text: the special ones, and tags such as Qwen's `<tool_call>` and `<think>`. A tag is text in
   * a reply: it decodes to its text and is legal wherever that text is. Gemma's runs of line breaks and tags of HTML are
   * no added tokens here, because it has them wherever a text has them.
   */
  readonly added: ReadonlyMap<string, number>;
  /** Special tokens by their text, such as `<|end|>`. */
  readonly special: ReadonlyMap<string, number>;
  /**
   * Bytes that are no token. Texts lose them when they become tokens, as with Hugging Face's tokenizers. Of SmolLM2 these
   * are 21: some control characters, and bytes that only rare characters or none have.
   */
  readonly missingBytes: ReadonlySet<number>;
  /**
   * The tokens of a text of a prompt, which the model's own tokenizer may normalize first (Qwen: NFC).
   * @param most Stops soon after so many. Default: no limit.
   */
  encode(text: string, most?: number): number[];
  /** Tokens with exactly the bytes of the text, without the bytes that are no token. */
  encodeExactly(text: string): number[];
  /** Bytes that are not valid UTF-8 become U+FFFD. Special tokens decode to nothing. */
  decode(tokens: readonly number[]): string;
  /** The bytes of one token; empty for a special token. */
  bytes(token: number): Uint8Array;
  /** A token as `logprobs` shows it: its text, also for a special token. */
  text(token: number): string;
}

/** How a base model writes conversations. */
export interface ChatFormat {
  /**
   * Jinja source. Its variables are `messages`, `tools`, `add_generation_prompt`, `documents`, `reasoning_effort`, those
   * of `variables`, and what a request adds.
   */
  template: string;
  /** Where the template is from: `checkpoint`, the name of one of martingale's, or the path of a file. */
  templateFrom: string;
  /** Another template for conversations with tools; null if the template is for all. */
  toolTemplate: string | null;
  /**
   * Whether the template may inspect or change the texts of a conversation, as templates of checkpoints do. If not, it
   * is rendered once for all conversations of the same form.
   */
  inspectsTexts: boolean;
  /** Texts of the model that its template gets as variables, such as `bos_token` and `eos_token`. */
  variables: Readonly<Record<string, string>>;
  /** The special token that the tokenizer itself puts before the template's text; null if there is none. */
  beginToken: number | null;
  /** Sampled at the end of every reply. The template writes it after the assistant's messages. */
  endToken: number;
  /** Further tokens that end a reply when they are sampled. */
  otherEndTokens: readonly number[];
  /** Sampled before each tool call, which is then written `name{"argument":"value"}`; null if calls are text. */
  callToken: number | null;
  /** How calls are written as text; null if they begin with the call token, or if the model has none. */
  textCalls: TextCalls | null;
  /** Special tokens around the reasoning that a reply may begin with; null if there are none. */
  reasoning: { open: number; close: number } | null;
  /** Text tags around reasoning that the model may write or leave out; null if there are none. */
  textReasoning: ReasoningTags | null;
}

/** Tags around the reasoning that a reply may begin with, such as `<think>` and `</think>`. */
export interface ReasoningTags {
  open: string;
  close: string;
  /** Their tokens; null if they are no tokens of their own. */
  tokens: { open: number; close: number } | null;
  /** What the template writes after `open`, and after `close`. */
  afterOpen: string;
  afterClose: string;
  /** Whether the generation prompt has already written `open`. */
  opened: boolean;
}

/** Calls as JSON objects: `{"name": "add", "arguments": {"a": 1}}`, each between two tags, or bare. */
export interface TextCalls {
  /** Before and after each call, such as `<tool_call>`; both empty for bare JSON. */
  open: string;
  close: string;
  /** Their tokens; null if they are no tokens of their own. */
  tokens: { open: number; close: number } | null;
  /** The field of the arguments. */
  argumentsField: 'arguments' | 'parameters';
}

/** A hash that identifies a prompt or reply by its token ids. Training compares it with what was sampled. */
export function tokenIdsHash(tokens: readonly number[]): string {
  return `sha256-${crypto.hash('sha256', Int32Array.from(tokens), 'hex').slice(0, 32)}`;
}
