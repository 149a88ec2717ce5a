import crypto from 'node:crypto';
import type { CallForm } from '../call-forms.ts';

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
  /** Texts of the model that its template gets as variables, such as `bos_token` and `eos_token`. */
  variables: Readonly<Record<string, string>>;
  /** The special token that the tokenizer itself puts before the template's text; null if there is none. */
  beginToken: number | null;
  /** Sampled at the end of every reply. The template writes it after the assistant's messages. */
  endToken: number;
  /** Further tokens that end a reply when they are sampled. */
  otherEndTokens: readonly number[];
  /** How calls are written; null if the model has none, or writes them in a way that is not read. */
  calls: CallStyle | null;
  /** A reply with a call, as the template writes it, where calls are written in a way that is not read. */
  unreadCall?: string;
  /** Tags around reasoning that the model may write or leave out; null if there are none. */
  reasoning: ReasoningTags | null;
  /** Absent: a reply is one message. If present, `calls` and `reasoning` are null, because channels tell both apart. */
  channels?: Channels;
}

/**
 * The tokens of replies that are several messages, each in a channel, as gpt-oss writes them (OpenAI's harmony format):
 * `start`, a role, `channel`, the channel's name, `message`, text, and `end`, or `call` after a call, or the end token.
 */
export interface Channels {
  start: number;
  channel: number;
  message: number;
  /** Before the type of a call's arguments, in a header; null if the tokenizer does not have it. */
  constrain: number | null;
  end: number;
  /** Ends a call, and the reply with it. */
  call: number;
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

/** How a model writes calls. */
export interface CallStyle extends CallForm {
  /** Those of its tags that are tokens of their own. */
  tokens: Readonly<Record<string, number>>;
}

/** The special tokens that a reply may have: those that end it, and those of channels. */
export const replyTokens = ({
  endToken,
  otherEndTokens,
  channels,
}: Pick<ChatFormat, 'endToken' | 'otherEndTokens' | 'channels'>): number[] => [
  endToken,
  ...otherEndTokens,
  ...Object.values(channels ?? {}).filter((token) => token !== null),
];

/** A hash that identifies a prompt or reply by its token ids. Training compares it with what was sampled. */
export function tokenIdsHash(tokens: readonly number[]): string {
  return `sha256-${crypto.hash('sha256', Int32Array.from(tokens), 'hex').slice(0, 32)}`;
}
