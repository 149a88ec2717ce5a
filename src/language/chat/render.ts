import crypto from 'node:crypto';
import { Template } from '@huggingface/jinja';
import { LRUCache } from 'lru-cache';
import type { Caller } from '../../util/fair-queue.ts';
import { refuseLongTools } from '../constraint/schema-size.ts';
import { LiteralPrompt, type TemplateValues } from '../extensions/request-template/literal-prompt.ts';
import type { TemplateRunner } from '../extensions/request-template/template-runner.ts';
import type { ChatFormat, Tokenizer } from '../tokenizer/tokenizer.ts';
import type { Conversation } from './conversation.ts';
import { PromptSize } from './prompt-size.ts';
import {
  refuseForgedRoles,
  refuseForgery,
  renderTemplate,
  type SkeletonOptions,
  shapeOf,
  skeletonOf,
} from './skeleton.ts';
import { type PromptPart, type Slot, slotsOf } from './template-messages.ts';

/** A conversation as tokens. `splices` are the runs that came as sampled ids, in the order of their turns. */
export interface RenderedConversation {
  tokens: number[];
  splices: { start: number; length: number }[];
}

export interface RenderOptions {
  addGenerationPrompt: boolean;
  /** The last turn is left open: nothing stands after its content. Default false. */
  continueFinalMessage?: boolean;
  /** What the template is told of the effort to spend on reasoning; absent: nothing. */
  reasoningEffort?: string | undefined;
  /** Tokens that the model's context holds: texts far longer than that are refused. Absent: none are. */
  contextLength?: number;
}

/** `location` is that of the conversation in its request, for errors; absent: the conversation is the request. */
type Turns = Pick<Conversation, 'turns' | 'tools'> & { location?: Conversation['location'] };

const cachedCharacters = 2 ** 22;
/** What a part of a cached skeleton takes beside its text. */
const charactersOfPart = 64;
const longestCachedText = 4096;

/** Writes the conversations of one base model as token ids. Text between special tokens is encoded in one piece. */
export class ConversationRenderer {
  readonly size: PromptSize;
  readonly #template: Template;
  readonly #tokenizer: Tokenizer;
  readonly #format: ChatFormat;
  readonly #runner: TemplateRunner;
  readonly #encoded = new LRUCache<string, readonly number[]>({
    // By length: thousands of long texts, each other than the last, would hold a hundred megabytes of ids.
    maxSize: cachedCharacters,
    sizeCalculation: (_, text) => text.length,
  });
  /** By a hash of their shape, which has the tools in it. */
  readonly #skeletons = new LRUCache<string, PromptPart[]>({
    maxSize: cachedCharacters,
    sizeCalculation: (parts) => charactersOf(parts, []) + (parts.length + 1) * charactersOfPart,
  });

  constructor(tokenizer: Tokenizer, format: ChatFormat, runner: TemplateRunner) {
    this.#format = format;
    this.#template = new Template(format.template);
    this.#tokenizer = tokenizer;
    this.size = new PromptSize(this.#tokenizer);
    this.#runner = runner;
  }

  /** Throws a 422 or 400 where the conversation cannot be written, or is longer than anybody reads. */
  render(conversation: Turns, options: RenderOptions): RenderedConversation {
    this.#checkCount(conversation, options);
    return this.#assemble(this.#skeleton(conversation, options), slotsOf(conversation.turns), options);
  }

  /**
   * The same with the texts themselves in the template, for further variables of the caller's and, where `source` is
   * given, for a template of the caller's.
   */
  async renderLiterally(
    conversation: Turns,
    options: RenderOptions,
    { source, documents, variables }: TemplateValues,
    caller?: Caller,
  ): Promise<RenderedConversation> {
    const { turns, tools } = conversation;
    this.#checkCount(conversation, options);
    refuseLongTools(tools, [...(conversation.location ?? []), 'tools']);
    const { special } = this.#tokenizer;
    refuseForgedRoles(turns, special);
    // What the model's own template would not write is refused here as on the other way.
    if (source === undefined) this.#skeleton(conversation, options);
    const prompt = new LiteralPrompt({ turns, tools }, { source, documents, variables }, special);
    const { continueFinalMessage = false, addGenerationPrompt } = options;
    const values = {
      ...this.#variables(options),
      ...prompt.values({ continueFinalMessage }),
      add_generation_prompt: addGenerationPrompt,
    };
    const rendered =
      source === undefined
        ? renderTemplate(this.#template, values)
        : prompt.textOf(await this.#runner.render({ source, variables: values }, caller));
    return this.#assemble(prompt.cut(rendered, { continueFinalMessage }), prompt.slots, options);
  }

  #checkCount({ turns }: Turns, { contextLength }: RenderOptions): void {
    if (contextLength !== undefined) this.size.checkTurns(turns, contextLength);
  }

  #assemble(
    parts: readonly PromptPart[],
    slots: readonly Slot[],
    { contextLength }: RenderOptions,
  ): RenderedConversation {
    if (contextLength !== undefined) this.size.check(charactersOf(parts, slots), contextLength);
    const tokens: number[] = [];
    const splices: { start: number; length: number }[] = [];
    let text = '';
    const flush = () => {
      if (text === '') return;
      for (const token of this.#encode(text)) tokens.push(token);
      text = '';
    };
    for (const part of parts) {
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
      const endsItself = slot.tokens.at(-1) === this.#format.endToken;
      const length = endsItself ? slot.tokens.length - 1 : slot.tokens.length;
      for (let index = 0; index < length; index++) tokens.push(slot.tokens[index] ?? 0);
    }
    flush();
    return { tokens, splices };
  }

  #skeleton({ turns, tools, location = [] }: Turns, options: RenderOptions): PromptPart[] {
    refuseLongTools(tools, [...location, 'tools']);
    const given = tools && tools.length > 0 ? tools : undefined;
    const toolsJson = given ? JSON.stringify(given) : '';
    const skeleton: SkeletonOptions = {
      addGenerationPrompt: options.addGenerationPrompt,
      continueFinalMessage: options.continueFinalMessage ?? false,
      variables: this.#variables(options),
    };
    const shape = crypto.hash('sha256', shapeOf(turns, toolsJson, skeleton), 'base64');
    const known = this.#skeletons.get(shape);
    if (known) return known;
    refuseForgery(toolsJson, this.#tokenizer.special);
    refuseForgedRoles(turns, this.#tokenizer.special);
    const parts = skeletonOf(this.#template, this.#tokenizer.special, turns, given, skeleton);
    // What is refused for its length takes no other's place.
    if (options.contextLength !== undefined) this.size.check(charactersOf(parts, []), options.contextLength);
    this.#skeletons.set(shape, parts);
    return parts;
  }

  #variables({ reasoningEffort }: RenderOptions): Record<string, string> {
    const { beginToken, endToken } = this.#format;
    return {
      bos_token: beginToken === null ? '' : this.#tokenizer.text(beginToken),
      eos_token: this.#tokenizer.text(endToken),
      ...(reasoningEffort === undefined ? {} : { reasoning_effort: reasoningEffort }),
    };
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

function charactersOf(parts: readonly PromptPart[], slots: readonly Slot[]): number {
  return parts.reduce((sum, part) => {
    if (part.type === 'text') return sum + part.text.length;
    const slot = part.type === 'slot' ? slots[part.index] : undefined;
    return slot?.type === 'text' ? sum + slot.text.length : sum;
  }, 0);
}
