import { LRUCache } from 'lru-cache';
import { parseExactJson } from '../../util/exact-json.ts';
import type { Caller } from '../../util/fair-queue.ts';
import { LanguageError } from '../error.ts';
import { toolsJson } from '../grammar/limits.ts';
import type { ChatFormat, Tokenizer } from '../tokenizer/tokenizer.ts';
import { ChannelPrompts } from './channel-prompts.ts';
import type { PromptPart, Slot } from './coded-template.ts';
import type { Conversation, Turn } from './conversation.ts';
import { type ConversationPrompt, ConversationPrompts } from './conversation-prompts.ts';
import { LongTexts, longText } from './long-texts.ts';
import { effortVariables, reasoningEnd } from './prompt-reasoning.ts';
import type { SharedLanguage } from './read-language.ts';
/**
 * A conversation as tokens. `splices` are the ranges of sampled ids in it, in the order of their turns; null for a reply
 * that the template wrote otherwise, as Qwen3's leaves out earlier reasoning.
 */
export interface RenderedConversation {
  tokens: number[];
  splices: ({ start: number; length: number } | null)[];
}

export interface RenderOptions {
  addGenerationPrompt: boolean;
  /** The last turn stays open: nothing follows its content. Default false. */
  continueFinalMessage?: boolean;
  /**
   * What the template receives as `reasoning_effort` and `enable_thinking`. With `none` the generation prompt holds no
   * open reasoning. Default: as the template likes.
   */
  reasoningEffort?: string | undefined;
  /** Further variables of the template. Default: none. */
  values?: Readonly<Record<string, unknown>> | undefined;
  /** Tokens that the model's context holds. Far longer texts are refused. Default: no check. */
  contextLength?: number;
  /** Whose long texts wait for the texts of others. */
  caller?: Caller | undefined;
}

/** `location` is the path of the conversation in its request, for errors. Default: the request itself. */
export type Turns = Pick<Conversation, 'turns' | 'tools'> & { location?: Conversation['location'] };

const cachedCharacters = 2 ** 22;
const maxCachedText = 4096;
const maxCachedConversation = 65_536;
/** Memory of a kept prompt besides its texts, in characters. */
const charactersOfPrompt = 1024;
/** Texts may be this many times longer than the context, because a template or a request may truncate them. */
const truncationFactor = 4;

/** Renders the conversations of one base model to token ids. Text between special tokens is encoded in one piece. */
export class ConversationRenderer {
  readonly tokenizer: Tokenizer;
  readonly #format: ChatFormat;
  readonly #longTexts: LongTexts | null;
  readonly #conversations: ConversationPrompts | ChannelPrompts;
  /** A template with today's date writes another prompt tomorrow. */
  readonly #writesDate: boolean;
  #longestTokenBytes: number | undefined;
  readonly #encoded = new LRUCache<string, readonly number[]>({
    // Limited by length, because thousands of long texts would hold a hundred megabytes of ids.
    maxSize: cachedCharacters,
    sizeCalculation: (_, text) => text.length,
  });

  /** By the JSON of the conversation and its options. */
  readonly #prompts = new LRUCache<string, ConversationPrompt>({
    maxSize: cachedCharacters,
    // The parts have about the texts of the key.
    sizeCalculation: (_, key) => 2 * key.length + charactersOfPrompt,
  });

  /** @param shared The same language for a thread that encodes long texts. Without it they are encoded in this one. */
  constructor(tokenizer: Tokenizer, format: ChatFormat, shared?: SharedLanguage) {
    this.tokenizer = tokenizer;
    this.#format = format;
    this.#longTexts = shared === undefined ? null : new LongTexts(shared);
    this.#conversations = format.channels
      ? new ChannelPrompts(tokenizer, format, format.channels)
      : new ConversationPrompts(tokenizer, format);
    this.#writesDate = `${format.template}${format.toolTemplate}`.includes('strftime_now');
  }

  /** @throws LanguageError if the conversation cannot be rendered, or is longer than `contextLength` permits. */
  async render(
    { turns, tools, location = [] }: Turns,
    options: RenderOptions,
  ): Promise<RenderedConversation> {
    this.checkCount(turns, options.contextLength);
    const json = tools && tools.length > 0 ? toolsJson(tools, [...location, 'tools']) : null;
    const { parts, slots, kept } = this.#prompt(turns, json, options);
    const { tokens, splices } = await this.assemble(parts, slots, options);
    let next = 0;
    return { tokens, splices: kept.map((isKept) => (isKept ? (splices[next++] ?? null) : null)) };
  }

  /** The rollouts of a group begin with the same conversation, so what was rendered before is kept. */
  #prompt(turns: readonly Turn[], tools: string | null, options: RenderOptions): ConversationPrompt {
    const { addGenerationPrompt, continueFinalMessage = false, reasoningEffort, values } = options;
    const { template, reasoning } = this.#format;
    const key =
      values === undefined && !this.#writesDate
        ? JSON.stringify([turns, tools, addGenerationPrompt, continueFinalMessage, reasoningEffort])
        : null;
    const known = key === null ? undefined : this.#prompts.get(key);
    if (known) return known;
    const prompt = this.#conversations.render(turns, tools === null ? null : parseExactJson(tools), {
      addGenerationPrompt,
      continueFinalMessage,
      values: { ...effortVariables(reasoningEffort), ...values },
    });
    if (reasoning && reasoningEffort === 'none' && addGenerationPrompt)
      prompt.parts.push(...reasoningEnd(prompt.parts, reasoning, { template, tokenizer: this.tokenizer }));
    if (key !== null && key.length <= maxCachedConversation) this.#prompts.set(key, prompt);
    return prompt;
  }

  /**
   * Refuses a text that is far too long for a context before it is tokenized, which takes seconds for megabytes.
   * @throws LanguageError (`context_length_exceeded`).
   */
  checkSize(characters: number, contextLength: number): void {
    const maximum = truncationFactor * contextLength * this.#maxTokenBytes();
    if (characters <= maximum) return;
    throw new LanguageError(
      'context_length_exceeded',
      `The prompt has ${characters} characters; a context of ${contextLength} tokens, including the reply, allows at most ${maximum}. Shorten the messages.`,
    );
  }

  /** Refuses too many messages and calls: a template writes at least one token for each. */
  checkCount(turns: readonly Pick<Turn, 'toolCalls'>[], contextLength: number | undefined): void {
    if (contextLength === undefined) return;
    const maximum = truncationFactor * contextLength;
    const count = turns.reduce((sum, { toolCalls }) => sum + toolCalls.length, turns.length);
    if (count <= maximum) return;
    throw new LanguageError(
      'context_length_exceeded',
      `The prompt has ${count} messages and tool calls; a context of ${contextLength} tokens, including the reply, allows at most ${maximum}. Send fewer messages.`,
    );
  }

  /** The template's variables besides the messages and tools. */
  variables({ reasoningEffort }: Pick<RenderOptions, 'reasoningEffort'>): Record<string, unknown> {
    return { ...this.#format.variables, ...effortVariables(reasoningEffort) };
  }

  /** Fills the slots of rendered parts and encodes the result. */
  async assemble(
    parts: readonly PromptPart[],
    slots: readonly Slot[],
    options: Pick<RenderOptions, 'contextLength' | 'caller'>,
  ): Promise<RenderedConversation> {
    const { contextLength, caller } = options;
    const maxTokens = truncationFactor * (contextLength ?? Number.POSITIVE_INFINITY);
    if (contextLength !== undefined) this.checkSize(charactersOf(parts, slots), contextLength);
    const tokens: number[] = [];
    const splices: RenderedConversation['splices'] = [];
    let text = '';
    const flush = async () => {
      if (text === '') return;
      const encoded =
        this.#longTexts && text.length >= longText
          ? await this.#longTexts.encode(text, { maxTokens, caller })
          : this.#encode(text);
      for (const token of encoded) tokens.push(token);
      text = '';
    };
    for (const part of parts) {
      if (part.type === 'text') {
        text += part.text;
        continue;
      }
      if (part.type === 'special') {
        await flush();
        tokens.push(part.token);
        continue;
      }
      const slot = slots[part.index];
      if (slot?.type === 'text') text += slot.text;
      if (slot?.type !== 'tokens') continue;
      await flush();
      splices.push({ start: tokens.length, length: slot.tokens.length });
      // The template writes the end token itself.
      const endsItself = !slot.hasEnd && slot.tokens.at(-1) === this.#format.endToken;
      const length = endsItself ? slot.tokens.length - 1 : slot.tokens.length;
      for (let index = 0; index < length; index++) tokens.push(slot.tokens[index] ?? 0);
    }
    await flush();
    return { tokens, splices };
  }

  /** Cached, because rollouts send the same texts many times: system prompts, tools, earlier turns. */
  #encode(text: string): readonly number[] {
    const known = this.#encoded.get(text);
    if (known) return known;
    const tokens = this.tokenizer.encode(text);
    if (text.length <= maxCachedText) this.#encoded.set(text, tokens);
    return tokens;
  }

  #maxTokenBytes(): number {
    if (this.#longestTokenBytes === undefined) {
      this.#longestTokenBytes = 1;
      for (let token = 0; token < this.tokenizer.vocabularySize; token++)
        this.#longestTokenBytes = Math.max(this.#longestTokenBytes, this.tokenizer.bytes(token).length);
    }
    return this.#longestTokenBytes;
  }
}

function charactersOf(parts: readonly PromptPart[], slots: readonly Slot[]): number {
  return parts.reduce((sum, part) => {
    if (part.type === 'text') return sum + part.text.length;
    const slot = part.type === 'slot' ? slots[part.index] : undefined;
    return slot?.type === 'text' ? sum + slot.text.length : sum;
  }, 0);
}
