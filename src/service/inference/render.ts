import { Template } from '@huggingface/jinja';
import { LRUCache } from 'lru-cache';
import type { Tool } from '../../contract/index.ts';
import type { Engine, Tokenizer } from '../../engines/engine.ts';
import type { Conversation } from './conversation.ts';
import { refuseForgery, type SkeletonPart, shapeOf, skeletonOf, slotsOf } from './skeleton.ts';

/** A conversation as tokens. `splices` are the runs that came as sampled ids, in the order of their turns. */
export interface RenderedConversation {
  tokens: number[];
  splices: { start: number; length: number }[];
}

const cachedCharacters = 2 ** 22;
const cachedShapes = 1024;
const longestCachedText = 4096;

/** Writes the conversations of one base model as token ids. Text between special tokens is encoded in one piece. */
export class ConversationRenderer {
  readonly #template: Template;
  readonly #tokenizer: Tokenizer;
  readonly #endToken: number;
  readonly #encoded = new LRUCache<string, readonly number[]>({
    // By length: thousands of long texts, each other than the last, would hold a hundred megabytes of ids.
    maxSize: cachedCharacters,
    sizeCalculation: (_, text) => text.length,
  });
  readonly #skeletons = new LRUCache<string, SkeletonPart[]>({ max: cachedShapes });

  constructor(engine: Engine, baseModel: string) {
    const format = engine.chatFormat(baseModel);
    this.#template = new Template(format.template);
    this.#tokenizer = engine.tokenizer(baseModel);
    this.#endToken = format.endToken;
  }

  render(
    { turns, tools }: Pick<Conversation, 'turns' | 'tools'>,
    { addGenerationPrompt }: { addGenerationPrompt: boolean },
  ): RenderedConversation {
    const slots = slotsOf(turns);
    const tokens: number[] = [];
    const splices: { start: number; length: number }[] = [];
    let text = '';
    const flush = () => {
      if (text === '') return;
      for (const token of this.#encode(text)) tokens.push(token);
      text = '';
    };
    for (const part of this.#skeleton(turns, tools, addGenerationPrompt)) {
      if (part.type === 'text') {
        text += part.text;
        continue;
      }
      if (part.type === 'special') {
        flush();
        tokens.push(part.token);
        continue;
      }
      const slot = slots[part.index];
      if (slot?.type === 'text') text += slot.text;
      if (slot?.type !== 'tokens') continue;
      flush();
      splices.push({ start: tokens.length, length: slot.tokens.length });
      // The template writes the end of the message itself.
      const length = slot.tokens.at(-1) === this.#endToken ? slot.tokens.length - 1 : slot.tokens.length;
      for (let index = 0; index < length; index++) tokens.push(slot.tokens[index] ?? 0);
    }
    flush();
    return { tokens, splices };
  }

  #skeleton(
    turns: Conversation['turns'],
    tools: readonly Tool[] | undefined,
    addGenerationPrompt: boolean,
  ): SkeletonPart[] {
    const given = tools && tools.length > 0 ? tools : undefined;
    const toolsJson = given ? JSON.stringify(given) : '';
    const shape = shapeOf(turns, toolsJson, addGenerationPrompt);
    const known = this.#skeletons.get(shape);
    if (known) return known;
    refuseForgery(toolsJson, this.#tokenizer.special);
    const skeleton = skeletonOf(this.#template, this.#tokenizer.special, turns, given, addGenerationPrompt);
    this.#skeletons.set(shape, skeleton);
    return skeleton;
  }

  /** Rollouts send the same texts over and over: system prompts, tools, the turns so far. */
  #encode(text: string): readonly number[] {
    const known = this.#encoded.get(text);
    if (known) return known;
    const tokens = this.#tokenizer.encode(text);
    if (text.length <= longestCachedText) this.#encoded.set(text, tokens);
    return tokens;
  }
}
